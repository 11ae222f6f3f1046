"""What the foreground shows: log lines, state changes, the banner, the verdict."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import IO, Any, Self

from dsv4_pd.plan.front import open_api
from dsv4_pd.plan.notices import NoticeKind
from dsv4_pd.plan.plan import Plan
from dsv4_pd.run.console.banner import banner
from dsv4_pd.run.console.noise import level, plain, worth_showing
from dsv4_pd.run.console.outlet import Outlet
from dsv4_pd.run.follow import Follower
from dsv4_pd.run.states import SERVING, StateName
from dsv4_pd.run.supervision.daemon import RunEnd
from dsv4_pd.settings.redact import Redactor, known_secrets

_PROGRESS_S = 15.0  # between two lines about a download
_DRAIN_S = 2.0  # for the last lines; a reader that is stuck misses them


class Console:
    """Reads the guard's health file and the programs' logs; subclasses decide how a line looks."""

    def __init__(self, plan: Plan, out: IO[str] | None = None) -> None:
        self.plan = plan
        self.out = out or sys.stdout
        self.health: dict[str, Any] = {}
        self._redact = Redactor(known_secrets(os.environ, plan.settings.secrets))
        self._logs = [(program.name, Follower(program.log_path, from_end=True)) for program in plan.programs]
        self.threshold = plan.settings.log_level
        self._state = ""
        self._stamp = 0
        self._greeted = False
        self._told = 0.0  # when the state was last told

    def __enter__(self) -> Self:
        renamed = (one.text for one in self.plan.placement.notices if one.kind is NoticeKind.DEPRECATED)
        for notice in (*open_api.notices(self.plan.settings), *renamed):
            self.say(notice)
        return self

    def __exit__(self, *error: object) -> None:
        if isinstance(self.out, Outlet):
            self.out.drain(_DRAIN_S)

    def tick(self) -> None:
        """Show whatever is new."""
        for name, log in self._logs:
            for line in map(plain, log.lines(limit=500)):
                if worth_showing(line, self.threshold):
                    self.log_line(name, self._redact.line(line))
        if self._read_health():
            self.on_health()

    def on_health(self) -> None:
        """A new health file: announce a changed state, and the banner the first time it serves."""
        state, reason = str(self.health.get("state")), str(self.health.get("reason"))
        if state != self._state:
            self._state = state
            self.say(f"{state}: {reason}")
            self._told = time.monotonic()
        elif state == StateName.DOWNLOADING and time.monotonic() - self._told > _PROGRESS_S:
            self._told = time.monotonic()
            self.say(reason)
        if state in SERVING and not self._greeted:
            self._greeted = True
            self.block(banner(self.plan, self.health))

    def say(self, message: str) -> None:
        """One line of the appliance itself."""
        self.log_line("dsv4-pd", self._redact.line(message))

    def log_line(self, role: str, line: str) -> None:
        """One line of a program."""
        raise NotImplementedError

    def block(self, text: str) -> None:
        """Several lines that belong together."""
        for line in text.splitlines():
            self.log_line("dsv4-pd", line)

    def verdict(self, verdict: RunEnd) -> None:
        """The last lines of the failed program, then the cause as the very last line."""
        for line in verdict.lines:
            self.log_line("last lines", self._redact.line(line))
        self.say(f"exit {verdict.code}: {verdict.cause}")

    def _read_health(self) -> bool:
        try:
            stamp = self.plan.paths.health.stat().st_mtime_ns
            if stamp == self._stamp:
                return False
            self.health = json.loads(self.plan.paths.health.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        self._stamp = stamp
        return True


class TextConsole(Console):
    """`15:04:05 role    | line`, for a person."""

    def log_line(self, role: str, line: str) -> None:
        """One line, role-tagged."""
        print(f"{time.strftime('%H:%M:%S')} {role:<8}| {line}", file=self.out, flush=True)


class JsonConsole(Console):
    """One JSON object a line, for a log collector: time (RFC 3339, UTC), level, role, msg."""

    def log_line(self, role: str, line: str) -> None:
        """One line as an object."""
        moment = time.time()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment)) + f".{int(moment * 1000) % 1000:03d}Z"
        print(
            json.dumps({"time": stamp, "level": level(line), "role": role, "msg": line}),
            file=self.out,
            flush=True,
        )
