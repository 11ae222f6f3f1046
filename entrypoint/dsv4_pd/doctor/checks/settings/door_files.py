"""The files of the front must be usable: named keys, certificate and its key, request log."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, fail, ok, skip
from dsv4_pd.errors import SettingsError
from dsv4_pd.plan.situation import Situation


def _run(s: Situation) -> Finding:
    logs = s.settings.request_log not in ("off", "stdout")
    if s.settings.api_keys_file is None and s.settings.tls_cert is None and not logs:
        return skip("no keys file, no certificate and no file of requests are set")
    if not s.door_files:
        return ok("usable")
    (setting, why), *others = s.door_files
    more = "".join(f"; {name}: {reason}" for name, reason in others)
    return fail(
        why + more, "correct the file, or unset the setting; docs/keys.md has a keys file to begin with", setting
    )


CHECK = Check(
    name="door-files",
    place=90,
    symptom="the front ends as soon as it starts, again and again; or requests are served and none is logged",
    why="Keys and certificate are read by the front alone, after the servers have loaded for minutes.",
    source="docs/keys.md",
    run=_run,
    expected="a keys file in TOML; a certificate and its own key in PEM, readable by the appliance's user; a request "
    "log that it may append to",
    fatal=True,
    error=SettingsError,
    gpu_only=False,
)
