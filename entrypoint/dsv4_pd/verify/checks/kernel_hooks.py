"""The engine plugins that this plan asks for are live in each server: called, not only installed."""

from __future__ import annotations

from dsv4_pd.run.states import WAY
from dsv4_pd.verify.base import Result, Subject, failed, passed, skipped


def check(subject: Subject) -> Result:
    """The guard's reading of the plugins' own records."""
    proof = subject.status.get("proof") or {}
    plugins, missing = proof.get("plugins") or [], proof.get("missing") or []
    if missing:
        return failed(
            f"not proved: {'; '.join(missing)}",
            "the engine serves on without a plugin that failed: read its record in the run folder's plugins/",
            missing=missing,
        )
    if not plugins:
        return skipped("this plan asks for no engine plugin")
    servers = [name for name in subject.status.get("roles", {}) if name not in WAY]
    return passed(f"{', '.join(plugins)} live in {', '.join(servers)}", plugins=plugins, servers=servers)
