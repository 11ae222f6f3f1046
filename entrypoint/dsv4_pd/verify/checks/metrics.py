"""One address gives every program's metrics, each family once."""

from __future__ import annotations

import re
from collections import Counter

from dsv4_pd.client.ops import by_role
from dsv4_pd.run.ops.exposition import samples
from dsv4_pd.run.states import WAY
from dsv4_pd.verify.base import Result, Subject, failed, passed

OWN = ("dsv4_state", "dsv4_ready", "dsv4_role_ready", "dsv4_role_restarts_total", "dsv4_scrape_up")


def check(subject: Subject) -> Result:
    """The exposition as Prometheus would read it."""
    roles = set(subject.status.get("roles", {}))
    return judge(subject.ops.metrics(), roles)


def judge(text: str, roles: set[str]) -> Result:
    """The verdict on the text."""
    seen = samples(text)
    names = {sample.name for sample in seen}
    answered = by_role(seen, "dsv4_scrape_up")
    silent = sorted(role for role in roles if answered.get(role) != 1)
    doubled = [n for n, count in Counter(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)).items() if count > 1]
    if absent := [name for name in OWN if name not in names]:
        return failed(f"missing: {', '.join(absent)}", "is this the ops port? give it with --url")
    if silent:
        return failed(f"no metrics from {', '.join(silent)}", "see whether it is up: dsv4-pd status; then its log")
    if doubled:
        return failed(f"announced twice: {', '.join(doubled[:3])}", "report it: Prometheus refuses the whole scrape")
    # Any of the engine's: its gauges appear only after decode_log_interval steps, so a young pair has not all of them.
    engines = {s.labels.get("member") or s.labels.get("role") for s in seen if s.name.startswith("sglang:")}
    if lost := sorted(roles - WAY - engines):
        return failed(
            f"no sglang: metrics with role {', '.join(lost)}", "the servers need --enable-metrics: dsv4-pd plan"
        )
    return passed(f"{len(seen):,} samples of {len(names)} metrics from {', '.join(sorted(roles))}", samples=len(seen))
