"""How a process ended, in words, from the kernel: read of a zombie before its parent has taken note of it."""

from __future__ import annotations

import os
import re
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
    return f"its {name} {likely(in_words(int(fields[_EXIT_CODE])))}" if zombie else f"its {name} ended"


def _stat(pid: int, proc: Path) -> tuple[str, list[str]]:
    """The kernel's name of a process, and the fields behind it; empty when it is gone."""
    try:
        text = (proc / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return "", []
    name, _, rest = text.partition("(")[2].rpartition(")")
    return name, rest.split()


# Signal or exit code -> what is likely behind it and what to look at. An end that is not here gets no guess.
LIKELY = {
    "SIGKILL": "by the kernel when memory ran out, or by somebody: dmesg | grep -i oom, docker inspect's OOMKilled",
    "SIGSEGV": "a crash in native code: the lines before it in its log, and dmesg",
    "SIGBUS": "memory behind a file is gone: /dev/shm is full (raise --shm-size), or the disk of the model failed",
    "SIGILL": "the processor lacks an instruction that this build uses",
    "SIGABRT": "a native assertion failed: the lines before it in its log say which",
    "SIGXCPU": "its CPU time is limited: ulimit -t",
    "SIGXFSZ": "a file reached its limit: ulimit -f",
    "SIGSYS": "a system call is forbidden: the container's seccomp profile",
    "code 126": "its program can't be executed: permissions, or a mount with noexec",
    "code 127": "its program is not there",
}
_BY_SHELL = 128  # a shell or a supervisor tells a signal as 128 + its number


def likely(how: str) -> str:
    """Words that end with how a process ended, with the likely cause behind them.

    >>> likely("exited with code 135"), likely("exited with code 3")
    ('exited with code 135, which is SIGBUS (memory behind a file is gone: /dev/shm is full (raise --shm-size), \
or the disk of the model failed)', 'exited with code 3')
    """
    code = re.search(r"code (\d{1,3})$", how)
    if code and int(code[1]) > _BY_SHELL and (name := _signal(int(code[1]) - _BY_SHELL)):
        how = f"{how}, which is {name}"
    last = how.removesuffix(" (core dumped)").split(" ")
    for key in (last[-1], " ".join(last[-2:])):
        if key in LIKELY:
            return f"{how} ({LIKELY[key]})"
    return how


def _signal(number: int) -> str | None:
    return signal.Signals(number).name if number in {item.value for item in signal.Signals} else None


def in_words(status: int) -> str:
    """A wait status.

    >>> in_words(9), in_words(139), in_words(3 << 8)
    ('was ended by SIGKILL', 'was ended by SIGSEGV', 'exited with code 3')
    """
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return f"was ended by {_signal(number) or f'signal {number}'}"
    return f"exited with code {os.WEXITSTATUS(status)}"
