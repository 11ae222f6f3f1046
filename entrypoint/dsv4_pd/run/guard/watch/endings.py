"""How a process ended, from the kernel or supervisord, and what is likely behind it; words are made last.

The kernel tells it of a zombie, before its parent has taken note of it.
"""

from __future__ import annotations

import os
import re
import signal
from dataclasses import dataclass
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
    code = fields[_EXIT_CODE] if len(fields) > _EXIT_CODE and fields[_STATE] in "ZX" else ""
    known = re.fullmatch(r"[0-9]{1,5}", code) is not None  # a wait status has 16 bits
    return f"its {name} {in_words(of_status(int(code)))}" if known else f"its {name} ended"


def _stat(pid: int, proc: Path) -> tuple[str, list[str]]:
    """The kernel's name of a process, and the fields behind it; empty when it is gone."""
    try:
        text = (proc / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return "", []
    name, _, rest = text.partition("(")[2].rpartition(")")
    return name, rest.split()


# What is likely behind an end, and what to look at. An end that is not here gets no guess.
LIKELY_OF_SIGNAL = {
    signal.SIGKILL: "by the kernel when memory ran out, or by somebody: dmesg | grep -i oom, "
    "docker inspect's OOMKilled",
    signal.SIGSEGV: "a crash in native code: the lines before it in its log, and dmesg",
    signal.SIGBUS: "memory behind a file is gone: /dev/shm is full (raise --shm-size), or the disk of the model failed",
    signal.SIGILL: "the processor lacks an instruction that this build uses",
    signal.SIGABRT: "a native assertion failed: the lines before it in its log say which",
    signal.SIGXCPU: "its CPU time is limited: ulimit -t",
    signal.SIGXFSZ: "a file reached its limit: ulimit -f",
    signal.SIGSYS: "a system call is forbidden: the container's seccomp profile",
}
LIKELY_OF_CODE = {
    126: "its program can't be executed: permissions, or a mount with noexec",
    127: "its program is not there",
}
_BY_SHELL = 128  # a shell or a supervisor tells a signal as 128 + its number
_NOT_TOLD = -1  # supervisord's exit status of a process that a signal ended


@dataclass(frozen=True, slots=True)
class Ending:
    """How a process ended: by a signal, or with an exit code."""

    code: int | None = None
    signal: int | None = None
    dumped: bool = False  # whether the kernel wrote a core file


def of_status(status: int) -> Ending:
    """From a wait status.

    >>> of_status(9), of_status(139), of_status(3 << 8)
    (Ending(code=None, signal=9, dumped=False), Ending(code=None, signal=11, dumped=True), \
Ending(code=3, signal=None, dumped=False))
    """
    if os.WIFSIGNALED(status):
        return Ending(signal=os.WTERMSIG(status), dumped=os.WCOREDUMP(status))
    return Ending(code=os.WEXITSTATUS(status))


def likely(ending: Ending) -> str | None:
    """What is likely behind it.

    >>> likely(Ending(code=135)) == likely(Ending(signal=7)), likely(Ending(code=3)), likely(Ending(signal=64))
    (True, None, None)
    """
    number = _number(ending)
    if number is not None:
        return LIKELY_OF_SIGNAL.get(signal.Signals(number)) if _name(number) else None
    return LIKELY_OF_CODE.get(ending.code) if ending.code is not None else None


def in_words(ending: Ending) -> str:
    """How it ended, with the likely cause behind it.

    >>> in_words(Ending(code=3)), in_words(Ending(signal=64)), in_words(Ending(code=153))
    ('exited with code 3', 'was ended by SIGRTMAX', 'exited with code 153, which is SIGXFSZ (a file reached its limit: \
ulimit -f)')
    """
    number, cause = _number(ending), likely(ending)
    if ending.signal is not None:
        how = f"was ended by {_name(ending.signal) or f'signal {ending.signal}'}" + " (core dumped)" * ending.dumped
    elif ending.code in (None, _NOT_TOLD):
        how = "was ended by a signal"
    else:
        how = f"exited with code {ending.code}" + (f", which is {_name(number)}" if number is not None else "")
    return f"{how} ({cause})" if cause else how


def _number(ending: Ending) -> int | None:
    """The signal behind it, which a shell tells as an exit code."""
    if ending.signal is not None:
        return ending.signal
    behind = (ending.code or 0) - _BY_SHELL
    return behind if _name(behind) else None


def _name(number: int | None) -> str | None:
    return signal.Signals(number).name if number in {item.value for item in signal.Signals} else None


# supervisord's own words of an exit, which is where it names a signal: `decode_wait_status` of its options.py.
_SIGNAL = r"terminated by (?:(SIG\w+)|signal ([0-9]{1,3})(?![0-9]))( \(core dumped\))?"
_CODE = r"exit status (-?[0-9]{1,3})(?![0-9])"
_EXITED = re.compile(rf"exited: (\S+) \((?:{_SIGNAL}|{_CODE})")


def last_of(log: str, program: str) -> Ending | None:
    """How a program ended last, by supervisord's log; None where it does not say."""
    told = [found for found in _EXITED.finditer(log) if found[1] == program]
    if not told:
        return None
    _, name, number, dumped, code = told[-1].groups()
    if code is not None:
        return Ending(code=int(code))
    known = name in signal.Signals.__members__
    return Ending(signal=signal.Signals[name] if known else int(number or 0), dumped=bool(dumped))
