"""The bounded reader of NVML: its questions run in a process of their own, each with a deadline.

NVML can hang forever on a card that fell off the bus; in a process of its own it can't take us along, and its library
and device handles don't stay in the supervisor's parent. A process that hangs in the driver can't even be killed: it is
left behind, and nothing waits for it.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

TIMEOUT_S = 60.0  # loading the driver's library takes seconds a card where persistence mode is off
_MODULE = "dsv4_pd.host.nvml"


class Silent(Exception):
    """No answer in time. `asking`: the card (index, UUID) that was being asked, as far as is known."""

    def __init__(self, asking: Any, seconds: float, stopped: bool = False) -> None:
        super().__init__(f"NVML did not answer within {seconds:.0f} s")
        self.asking, self.stopped = asking, stopped


class Ended(Exception):
    """The process ended instead of answering."""


class Reader:
    """One process of `host.nvml`."""

    def __init__(self, arguments: Sequence[str] = ()) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", _MODULE, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self._process.stdout and self._process.stderr
        self._rest = b""
        self._noise = b""

    def ask(self, seconds: float) -> dict[str, Any]:
        """Send one line and return the next message that is an answer.

        Raises:
            Silent: at the deadline; the process is of no more use then.
            Ended: it ended first.
        """
        with contextlib.suppress(OSError):  # it ended, or takes no questions
            assert self._process.stdin
            self._process.stdin.write(b"\n")
            self._process.stdin.flush()
        deadline, asking = time.monotonic() + seconds, None
        while (line := self._line(deadline)) is not None:
            message = _message(line)
            if "asking" not in message and message:
                return message
            asking = message.get("asking", asking)
        raise Silent(asking, seconds, stopped=self._stopped())

    def _line(self, deadline: float) -> bytes | None:
        """The next whole line; None at the deadline."""
        assert self._process.stdout and self._process.stderr
        out, err = self._process.stdout.fileno(), self._process.stderr.fileno()
        watched = [out, err]
        while b"\n" not in self._rest:
            ready, _, _ = select.select(watched, [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                return None
            if err in ready:
                noise = os.read(err, 65536)
                self._noise = (self._noise + noise)[-4096:]
                watched = watched if noise else [out]
            if out in ready:
                data = os.read(out, 65536)
                if not data:
                    raise Ended(self._last_words())
                self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _last_words(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        with contextlib.suppress(OSError):
            assert self._process.stderr
            self._noise += os.read(self._process.stderr.fileno(), 65536)
        lines = self._noise.decode(errors="replace").strip().splitlines() or ["no output"]
        return f"the NVML reader ended with {self._process.returncode}: {lines[-1]}"

    def _stopped(self) -> bool:
        """Whether somebody stopped the process, which says nothing of NVML."""
        try:
            text = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return False
        return text.rpartition(")")[2].split()[0] in "Tt"

    def close(self) -> None:
        """End it; one that the driver holds is left behind."""
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            with contextlib.suppress(OSError):
                assert pipe
                pipe.close()


def _message(line: bytes) -> dict[str, Any]:
    """A line of ours; nothing for what a library printed beside us."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _with_hung(answers: dict[str, Any], hung: list[dict[str, Any]]) -> dict[str, Any]:
    """With the cards that hung among the lost; the words of the only ones are the machine's."""
    if not hung:
        return answers
    error = answers.get("error") or (None if answers.get("gpus") else hung[0]["error"])
    return answers | {"error": error, "lost": [*answers.get("lost", []), *hung]}


def query(seconds: float | None = None) -> dict[str, Any]:
    """`host.nvml.query` through the bounded reader; a card that hangs is listed as lost, the others are asked again.

    One deadline holds for each card that hangs, so a machine with one dead card takes one deadline longer.
    """
    seconds = TIMEOUT_S if seconds is None else seconds
    hung: list[dict[str, Any]] = []
    while True:
        skip = ",".join(str(card["index"]) for card in hung)
        reader = Reader(("--skip", skip) if hung else ())
        try:
            answers = reader.ask(seconds)
            return _with_hung(answers, hung)
        except Silent as error:
            if not isinstance(error.asking, int):
                return {"error": str(error), "gpus": []}
            hung.append({"index": error.asking, "error": str(error)})
        except Ended as error:
            return {"error": str(error), "gpus": []}
        finally:
            reader.close()
