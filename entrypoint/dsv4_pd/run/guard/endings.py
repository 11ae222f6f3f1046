"""How a process ended, in words, from the kernel: read of a zombie before its parent has taken note of it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

PROC = Path("/proc")
# What the kernel keeps of the names that SGLang gives its children: 15 characters.
_WORKERS = {"sglang::schedul": "scheduler", "sglang::detoken": "detokenizer"}
_STATE, _EXIT_CODE = 0, 49  # of /proc/PID/stat, counted behind the name in parentheses


def of_worker(pid: int, proc: Path = PROC) -> str:
    """What became of an engine's child: which one it was, and its signal or exit code where the kernel still tells."""
    try:
        text = (proc / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return "a scheduler or detokenizer process ended"
    name, _, rest = text.partition("(")[2].rpartition(")")
    fields = rest.split()
    who = f"its {_WORKERS.get(name, 'scheduler or detokenizer')}"
    zombie = len(fields) > _EXIT_CODE and fields[_STATE] in "ZX"
    return f"{who} {in_words(int(fields[_EXIT_CODE]))}" if zombie else f"{who} ended"


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
