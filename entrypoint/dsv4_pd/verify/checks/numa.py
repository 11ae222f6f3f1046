"""Every process of a server runs on the CPUs of its role's NUMA node: as the kernel says, not as the settings do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from dsv4_pd.host.parse import cpu_list
from dsv4_pd.verify.base import Result, Subject, failed, passed, skipped


def check(subject: Subject) -> Result:
    """Affinity of each process of each server, from /proc."""
    if subject.local is None:
        return skipped("/proc of the servers is not visible from here", "docker exec CONTAINER dsv4-pd verify")
    status = subject.status
    placement = (status.get("about") or {}).get("placement") or {}
    bound = {name: frozenset(role["cpus"]) for name, role in placement.items() if role.get("cpus")}
    if not bound:
        return skipped("this plan binds no role to a NUMA node")
    pids = {name: status["roles"][name].get("pid") for name in bound}
    return judge(subject.local.root, bound, pids)


def judge(root: Path, bound: dict[str, frozenset[int]], pids: dict[str, int | None]) -> Result:
    """The verdict on the processes below each server's."""
    seen: dict[str, int] = {}
    for role, cpus in bound.items():
        pid = pids.get(role)
        tree = list(_tree(root, pid)) if pid else []
        if not tree:
            return failed(f"{role} has no process in /proc", "dsv4-pd status")
        for member in tree:
            allowed = _affinity(root, member)
            if allowed is None or not allowed <= cpus:
                return failed(
                    f"{role} (pid {member}) may run on CPUs {_text(allowed)}, its node has {_text(cpus)}",
                    "DSV4_NUMA=strict refuses to start unbound; in Docker add --cap-add SYS_NICE",
                )
        seen[role] = len(tree)
    told = ", ".join(f"{role}: {count} processes on CPUs {_text(bound[role])}" for role, count in seen.items())
    return passed(told, processes=seen)


def _tree(root: Path, pid: int) -> Iterator[int]:
    if not (root / f"proc/{pid}").is_dir():
        return
    yield pid
    for path in (root / f"proc/{pid}/task").glob("*/children"):
        try:
            children = path.read_text(encoding="utf-8").split()
        except OSError:
            continue
        for child in children:
            yield from _tree(root, int(child))


def _affinity(root: Path, pid: int) -> frozenset[int] | None:
    try:
        status = (root / f"proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return None
    match = re.search(r"^Cpus_allowed_list:\s*(\S+)", status, re.MULTILINE)
    return cpu_list(match[1]) if match else None


def _text(cpus: frozenset[int] | None) -> str:
    return "unknown" if cpus is None else f"{min(cpus)}-{max(cpus)} ({len(cpus)})" if cpus else "none"
