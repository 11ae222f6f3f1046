"""`serve`'s part of the download: starts its process, shows it, starts it again when it dies, ends it on a signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path
from types import FrameType
from typing import Any

from dsv4_pd import __version__
from dsv4_pd.errors import ApplianceError, HardwareError, SettingsError, TemporaryError
from dsv4_pd.plan.around.ahead import Ahead
from dsv4_pd.plan.disk import run_mark
from dsv4_pd.plan.front import open_api
from dsv4_pd.plan.plan import Plan
from dsv4_pd.plan.programs.environment import child_environment
from dsv4_pd.run.console.base import Console
from dsv4_pd.run.download.phase import Config, problems_of
from dsv4_pd.run.guard.tell import publish
from dsv4_pd.run.supervision.daemon import TIED, drain

_TICK_S = 0.1
_SILENT_S = 60.0  # without a heartbeat of the process, which beats every second
_STOP_S = 15.0  # a transfer hears the end at its next block, or when its own timeout is over
_KINDS: tuple[type[ApplianceError], ...] = (SettingsError, HardwareError, TemporaryError)


class Arrival:
    """Brings the model of a plan here."""

    def __init__(self, plan: Plan, console: Console) -> None:
        self._plan, self._console = plan, console
        self._config = plan.paths.run / "download.json"
        self._outcome = plan.paths.run / "download.done.json"
        self._process: subprocess.Popen[bytes] | None = None
        self._said: deque[str] = deque(maxlen=20)
        self._signals = 0
        self._deadline = float("inf")

    def run(self) -> bool:
        """Until the model is here; False when a signal ended it.

        Raises:
            ApplianceError: with the cause, when it can't be had.
        """
        return not self._ended(ahead=False).get("stopped", False)

    def look(self) -> Ahead | None:
        """What the Hub tells of the model before its weights come; None when a signal ended it.

        Raises:
            ApplianceError: with the cause, when it can't be had.
        """
        found = self._ended(ahead=True).get("ahead")
        return Ahead(**found) if found else None

    def _ended(self, *, ahead: bool) -> dict[str, Any]:
        """How it ended, well or by a signal."""
        former = {n: signal.signal(n, self._on_signal) for n in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
        try:
            return self._judge(self._until_ended(ahead))
        finally:
            self._end()
            for number, handler in former.items():
                signal.signal(number, handler)

    def _until_ended(self, ahead: bool) -> dict[str, Any]:
        self._write(ahead)
        for tries in range(self._plan.settings.restart_limit + 1):
            if tries:
                words = f" ({self._said[-1]})" if self._said else ""
                self._console.say(f"the download's process died{words}; it is restarted and resumes")
            self._start()
            if (ended := self._watch()) is not None:
                return ended
        last = f": {self._said[-1]}" if self._said else ""
        raise ApplianceError(f"the download's process died {self._plan.settings.restart_limit + 1} times{last}")

    def _judge(self, ended: dict[str, Any]) -> dict[str, Any]:
        code, problems = ended.get("code", 1), problems_of(ended)
        if code == 0:
            return ended
        kind = next((kind for kind in _KINDS if kind.exit_code == code), ApplianceError)
        raise kind(problems or "the download failed")

    def _watch(self) -> dict[str, Any] | None:
        """How it ended; None when it died."""
        assert self._process is not None
        started = time.monotonic()
        while self._process.poll() is None:
            self._console.tick()
            if self._signals and self._stopped():
                return {"code": 0, "stopped": True}
            beat = self._console.health.get("heartbeat_monotonic", started)
            if time.monotonic() - max(started, beat) > _SILENT_S:
                self._process.kill()
            time.sleep(_TICK_S)
        self._console.tick()
        if self._signals:
            return {"code": 0, "stopped": True}
        return publish.read_json(self._outcome) or None

    def _stopped(self) -> bool:
        """Asked once; at once by a second signal, or when it does not hear."""
        assert self._process is not None
        now = time.monotonic()
        if self._deadline == float("inf"):
            self._console.say("stopping; the next start resumes the download here")
            self._deadline = now + _STOP_S
            self._process.terminate()
        return self._signals > 1 or now > self._deadline

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._signals += 1

    def _write(self, ahead: bool) -> None:
        plan, settings = self._plan, self._plan.settings
        shown = {
            "version": __version__, "mode": plan.placement.mode, "profile": plan.profile.name,
            "model": settings.served_model_name or settings.model, "notices": list(open_api.notices(settings)),
        }  # fmt: skip
        config = Config(
            model=settings.model, revision=settings.model_revision, state_dir=str(plan.paths.state),
            stall_s=settings.download_stall_timeout, health_file=str(plan.paths.health),
            outcome_file=str(self._outcome), ops_host=settings.ops_host, ops_port=settings.ops_port,
            shown=shown, about=dict(plan.about), ahead=ahead)  # fmt: skip
        self._config.unlink(missing_ok=True)
        with os.fdopen(os.open(self._config, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(config.to_json())

    def _start(self) -> None:
        self._outcome.unlink(missing_ok=True)
        self._process = subprocess.Popen(
            [sys.executable, TIED, "dsv4_pd", str(os.getpid()), "download-phase", str(self._config)],
            env=child_environment(self._plan.environ, run_mark.current(self._plan.paths.run)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        threading.Thread(target=drain, args=(self._process.stdout, self._said), daemon=True).start()

    def _end(self) -> None:
        """Nothing of it stays, its files excepted."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        for path in (self._config, self._outcome, Path(self._plan.paths.health)):
            path.unlink(missing_ok=True)
