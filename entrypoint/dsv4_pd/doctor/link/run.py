"""Runs the KV-link test: two processes of the engine's interpreter, as the two roles will be."""

from __future__ import annotations

import contextlib
import json
import secrets
import statistics
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from dsv4_pd.doctor.link.report import LinkReport, Pair, chosen_transport
from dsv4_pd.errors import HardwareError, Problem
from dsv4_pd.plan.placement.place import Placement
from dsv4_pd.plan.programs.program import Program
from dsv4_pd.settings.layout import PAIR_ROLES

_AGENT = Path(__file__).with_name("agent.py")
_SIZES = {"cuda": (128 << 20, 5, 180.0), "cpu": (16 << 20, 3, 90.0)}  # bytes a pair, timed rounds, seconds in all

_END_S = 5.0


class LinkFailure(Exception):
    """The test could not be carried through."""


@dataclass(frozen=True, slots=True)
class End:
    """One role: its interpreter, its environment as the server gets it, and a CUDA ordinal for each rank."""

    role: str
    python: str
    env: Mapping[str, str]
    ranks: tuple[int, ...]


def ends(python: Path, placement: Placement, programs: Iterable[Program], environ: Mapping[str, str]) -> list[End]:
    """prefill and decode, with the environment of their programs."""
    envs = {program.name: dict(program.env) for program in programs}
    return [
        End(
            role=role.role,
            python=str(python),
            # PYTHONPATH could carry a plugin that is not meant for this process.
            env={k: v for k, v in {**environ, **envs[role.name]}.items() if k != "PYTHONPATH"},
            ranks=tuple(role.base_gpu_id + rank for rank in range(role.tensor_parallel)),
        )
        for role in placement.roles
    ]


def measure(
    python: Path, placement: Placement, programs: Iterable[Program], environ: Mapping[str, str]
) -> LinkReport | None:
    """Move bytes from prefill to decode for each rank pair; None when there is only one server."""
    if {role.role for role in placement.roles} != set(PAIR_ROLES):
        return None
    size = _SIZES[placement.device][0]
    found: list[Pair] = []
    for sender, receiver in meetings(ends(python, placement, programs, environ)):
        report = _between(sender, receiver, placement)
        if report.error:
            return LinkReport(placement.device, size, (), report.error)
        found += report.pairs
    return LinkReport(placement.device, size, tuple(found))


def meetings(found: list[End]) -> list[tuple[End, End]]:
    """Who is tested with whom: every prefill and every decode at least once."""
    first = [end for end in found if end.role == "prefill"]
    last = [end for end in found if end.role == "decode"]
    return [(first[at % len(first)], last[at % len(last)]) for at in range(max(len(first), len(last)))]


def _between(sender: End, receiver: End, placement: Placement) -> LinkReport:
    """One prefill to one decode."""
    size, rounds, limit = _SIZES[placement.device]
    try:
        with (
            tempfile.TemporaryDirectory(prefix="dsv4-link-", ignore_cleanup_errors=True) as folder,
            Conversation(sender, receiver, placement.device, size, rounds, limit, Path(folder)) as talk,
        ):
            pairs = tuple(talk.pair(rank) for rank in range(len(sender.ranks)))
    except LinkFailure as error:
        return LinkReport(placement.device, size, (), str(error))
    except OSError as error:  # no room, no descriptor, no process: nothing of it is the link's
        where = f"{error.filename}: " if error.filename else ""
        return LinkReport(placement.device, size, (), f"the test could not be carried out: {where}{error.strerror}")
    return LinkReport(placement.device, size, pairs)


class Conversation:
    """Both processes and the messages between them; ends them at a deadline, whatever they are stuck in."""

    def __init__(
        self, sender: End, receiver: End, device: str, size: int, rounds: int, limit: float, folder: Path
    ) -> None:
        self._size, self._limit, self._folder = size, limit, folder
        self._base = {"device": device, "bytes": size, "rounds": rounds, "seed": secrets.randbits(31)}
        self._ends = (receiver, sender)
        self._children: dict[str, subprocess.Popen[str]] = {}
        self._late = False
        self._timer = threading.Timer(limit, self._expire)
        self._timer.daemon = True

    def __enter__(self) -> Conversation:
        try:
            for end in self._ends:
                self._children[end.role] = self._start(end, self._base)
        except LinkFailure:
            self.__exit__()
            raise
        self._timer.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._timer.cancel()
        for child in self._children.values():
            child.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):  # the driver holds it
                child.wait(_END_S)
            for pipe in (child.stdin, child.stdout):
                if pipe:
                    with contextlib.suppress(OSError):  # what was never sent is flushed here
                        pipe.close()

    def _start(self, end: End, base: dict[str, Any]) -> subprocess.Popen[str]:
        spec = json.dumps({**base, "ranks": end.ranks})
        env = {**end.env, "UCX_PROTO_INFO": "y", "UCX_LOG_LEVEL": "warn", "UCX_LOG_FILE": "stderr"}
        with self._log(end.role).open("wb") as log:
            try:
                return subprocess.Popen(
                    [end.python, str(_AGENT), end.role, spec],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env=env,
                    start_new_session=True,  # a terminal's Ctrl-C is for `serve` to handle
                    text=True,
                    errors="replace",  # libraries print beside us, in whatever encoding
                )
            except OSError as error:
                raise LinkFailure(f"{end.python} can't be run: {error.strerror}") from error

    def _log(self, role: str) -> Path:
        return self._folder / f"{role}.log"

    def _expire(self) -> None:
        self._late = True
        for child in self._children.values():
            child.kill()

    def pair(self, rank: int) -> Pair:
        """One rank pair: memory published, written, verified."""
        self._say("prefill", self._hear("decode"))
        sent = self._hear("prefill")
        self._say("decode", {})
        received = self._hear("decode")
        for role in PAIR_ROLES:
            self._say(role, {})
        try:
            rate, wrong = round(self._size / statistics.median(sent["seconds"])), int(received["wrong"])
        except (KeyError, TypeError, ValueError, ArithmeticError) as error:
            raise LinkFailure(f"an invalid answer: {sent!r}, {received!r}") from error
        log = self._log("prefill").read_text(encoding="utf-8", errors="replace")
        return Pair(rank, rate, chosen_transport(log), wrong)

    def _say(self, role: str, message: dict[str, Any]) -> None:
        pipe = self._children[role].stdin
        try:
            _present(pipe).write(json.dumps(message) + "\n")
            _present(pipe).flush()
        except (OSError, ValueError) as error:  # its end of the pipe is closed
            raise self._failure(role) from error

    def _hear(self, role: str) -> dict[str, Any]:
        for line in _present(self._children[role].stdout):
            if message := _message(line):
                return message
        raise self._failure(role)

    def _failure(self, role: str) -> LinkFailure:
        if self._late:
            return LinkFailure(
                f"no result within {self._limit:.0f} s: a copy hangs, as it does behind a translating IOMMU"
            )
        lines = self._log(role).read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return LinkFailure(f"{role}'s end failed: {lines[-1] if lines else 'it said nothing'}")


def _message(line: str) -> dict[str, Any]:
    """A line of the other end, which always names its rank; nothing for what a library printed beside us.

    >>> _message('{"rank": 0, "wrong": 0}'), _message('{"level": "info"}'), _message("{half")
    ({'rank': 0, 'wrong': 0}, {}, {})
    """
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) and "rank" in found else {}


def _present(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


def prove(
    python: Path, placement: Placement, programs: Iterable[Program], environ: Mapping[str, str], result: Path
) -> LinkReport | None:
    """Measure, leave the result where `/status` finds it, and refuse a link that corrupts.

    A test that did not finish is reported and not refused: slow is not dead, and the canary has the last word.

    Raises:
        HardwareError: the bytes arrived wrong.
    """
    report = measure(python, placement, programs, environ)
    if report is None:
        return None
    fresh = result.with_name(result.name + ".new")
    try:
        fresh.write_text(report.to_json(), encoding="utf-8")
        fresh.replace(result)
    except OSError:  # /status will not show it; the console does
        with contextlib.suppress(OSError):
            fresh.unlink()
    if report.corrupt:
        raise HardwareError(
            [
                Problem(
                    "KV link",
                    report.text(),
                    "prefill's bytes in decode's memory, unchanged",
                    "run `dsv4-pd doctor` and fix what it reports about iommu, acs and peer-access; "
                    "DSV4_LAYOUT=single serves without the link",
                )
            ]
        )
    return report
