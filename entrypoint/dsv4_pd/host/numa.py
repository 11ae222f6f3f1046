"""What the kernel lets us bind: a dry run of numactl, from the strongest policy to none.

Docker's default seccomp profile refuses set_mempolicy without CAP_SYS_NICE, and then `numactl --membind` ends the
server before it starts, without a traceback (sglang#27368, vllm PR#45438). So it is tried on `true` first.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

Policy = Literal["membind", "preferred", "cpu", "none"]
_TRY_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Permission:
    """The strongest policy that works here, and why not a stronger one."""

    policy: Policy
    reason: str | None = None
    installed: bool = True  # whether numactl is there to ask


def _try(argv: Sequence[str]) -> str | None:
    """None when the command works, else its last words."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_TRY_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]


def probe(node: int, attempt: Callable[[Sequence[str]], str | None] = _try, numactl: str | None = None) -> Permission:
    """Dry-run the policies on one node that the cpuset allows."""
    program = numactl or shutil.which("numactl")
    if program is None:
        return Permission("none", "numactl is not installed", installed=False)
    first: str | None = None
    flags: tuple[tuple[Policy, str | None], ...] = (
        ("membind", f"--membind={node}"),
        ("preferred", f"--preferred={node}"),
        ("cpu", None),
    )
    for policy, memory in flags:
        argv = [program, f"--cpunodebind={node}", *filter(None, [memory]), "true"]
        refused = attempt(argv)
        if refused is None:
            return Permission(policy, first)
        first = first or refused
    return Permission("none", first)


def arguments(nodes: Sequence[int], memory_nodes: Sequence[int], policy: Policy) -> tuple[str, ...]:
    """numactl's words for a role; empty when nothing is to be bound.

    >>> arguments((4, 5), (4, 5), "membind")
    ('numactl', '--cpunodebind=4,5', '--membind=4,5')
    """
    if not nodes or policy == "none":
        return ()
    words = ["numactl", f"--cpunodebind={_listed(nodes)}"]
    if policy == "membind" and memory_nodes:
        words.append(f"--membind={_listed(memory_nodes)}")
    elif policy == "preferred" and len(memory_nodes) == 1:  # numactl prefers one node only
        words.append(f"--preferred={memory_nodes[0]}")
    return tuple(words)


def _listed(nodes: Sequence[int]) -> str:
    return ",".join(str(node) for node in nodes)
