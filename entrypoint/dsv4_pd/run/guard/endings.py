"""How a process ended, in words, from the kernel: read of a zombie before its parent has taken note of it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

PROC = Path("/proc")
# What the kernel keeps of the names that SGLang gives its children: 15 characters.
_WORKERS = {"sglang::schedul": "scheduler", "sglang::detoken": "detokenizer"}
_STATE, _EXIT_CODE = 0, 49  # of /proc/PID/stat, counted behind the name in parentheses


def name_of(worker: int, proc: Path = PROC) -> str:
    """Which of the engine's children it is, while it lives."""
    return _WORKERS.get(_stat(worker, proc)[0], "scheduler or detokenizer")


def of_worker(worker: int, name: str, proc: Path = PROC) -> str:
    """What became of an engine's child: its signal or exit code, unless its parent was faster and took note of it."""
    _, fields = _stat(worker, proc)
    zombie = len(fields) > _EXIT_CODE and fields[_STATE] in "ZX"
    return f"its {name} {in_words(int(fields[_EXIT_CODE]))}" if zombie else f"its {name} ended"


def _stat(pid: int, proc: Path) -> tuple[str, list[str]]:
    """The kernel's name of a process, and the fields behind it; empty when it is gone."""
    try:
        text = (proc / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return "", []
    name, _, rest = text.partition("(")[2].rpartition(")")
    return name, rest.split()


def in_words(status: int) -> str:
    """A wait status.

    >>> in_words(9), in_words(139), in_words(3 << 8)
    ('was ended by SIGKILL', 'was ended by SIGSEGV', 'exited with code 3')
    """
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        named = number in {item.value for item in signal.Signals}
        return f"was ended by {signal.Signals(number).name if named else f'signal {number}'}"
    return f"exited with code {os.WEXITSTATUS(status)}"
