"""The random mark of a run: in the environment of everything that it starts, and kept in its run folder.

A path would not do: two containers that share a PID namespace may both call their run folder /run/dsv4-pd. The file
holds one `BOOT MARK` line a run, the newest last; an older run's line stays while a process of it is still there.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

RUN_MARK = "DSV4_RUN_MARK"  # the variable
MARKS = "ours/marks"  # in a folder of its own, which outlives the cleaning of the run folder


def boot_id() -> str:
    """The kernel's name for this boot: what was noted under another one is nobody's any more."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def known(run: Path) -> tuple[str, ...]:
    """The marks of this run folder since the machine booted, the present run's last."""
    boot = boot_id()
    return tuple(words[1] for words in read_lines(run / MARKS) if len(words) == 2 and words[0] == boot)


def current(run: Path) -> str:
    """The present run's mark; empty before there is one."""
    return (known(run) or ("",))[-1]


def begin(run: Path, keep: tuple[str, ...] = ()) -> str:
    """A new run's mark, noted after those that are still in use."""
    fresh = secrets.token_hex(16)
    boot = boot_id()
    write_lines(run / MARKS, [f"{boot} {mark}" for mark in (*keep, fresh)])
    return fresh


def read_lines(path: Path) -> list[list[str]]:
    """The words of each line; none where the file is missing, cut short or not text."""
    try:
        return [line.split() for line in path.read_text(encoding="ascii").splitlines()]
    except (OSError, ValueError):
        return []


def write_lines(path: Path, lines: list[str]) -> None:
    """Overwrite in place: a file that stays within its first block can be written where the disk is full."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
        file.write("".join(f"{line}\n" for line in lines).encode("ascii"))
        file.truncate()
