"""`dsv4-pd serve`: the parent of supervisord, the foreground of the appliance, the owner of its exit code."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from types import FrameType

from dsv4_pd.doctor import preflight
from dsv4_pd.errors import ApplianceError
from dsv4_pd.host.machine import Live
from dsv4_pd.plan import folders
from dsv4_pd.plan.paths import share_dir
from dsv4_pd.plan.plan import Plan
from dsv4_pd.plan.survey import survey
from dsv4_pd.run import files, prebuilt
from dsv4_pd.run.console.base import Console
from dsv4_pd.run.console.choose import choose
from dsv4_pd.run.supervision import sweep
from dsv4_pd.run.supervision.daemon import Supervisord, Verdict, read_verdict

_TICK_S = 0.1
_ASK_AGAIN_S = 2.0
_STOP_MARGIN_S = 20.0  # beyond the drain: the router's exit, hard ends, the sweep


def run(environ: Mapping[str, str]) -> int:
    """Boot with the settings of an environment, serve until the end, and return the exit code."""
    situation = survey(environ, Live())
    plan = situation.planned()
    folders.make(plan.paths)
    with folders.lock(plan.paths):
        if sweep.kill(plan.paths.run):  # orphans of a run that was killed held ports and cards
            situation = survey(environ, Live())
        plan = preflight.refuse(situation)
        files.clean(plan.paths)
        files.write(plan.files)
        if plan.placement.device == "cuda":
            prebuilt.seed(share_dir() / "caches" / "triton", plan.paths.cache / "triton")  # the engine's own folder
        with choose(plan) as console:
            return Foreground(plan, console).run()


class Foreground:
    """Runs supervisord, shows what happens, turns signals into a clean stop."""

    def __init__(self, plan: Plan, console: Console) -> None:
        self._plan = plan
        self._console = console
        self._daemon = Supervisord(plan.paths, plan.environ)
        self._signals = 0
        self._ask_again = 0.0
        self._deadline = float("inf")
        self._deaths: list[float] = []
        # Beside the servers' load, which takes longer; a link that corrupts ends the start before READY.
        self._helpers = ThreadPoolExecutor(1, "link test")
        self._link: Future[str] | None = None

    def run(self) -> int:
        """Until the verdict is in and nothing of ours is left."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        self._daemon.start()
        self._link = self._helpers.submit(preflight.prove_link, self._plan)
        while True:
            self._console.tick()
            if verdict := self._link_result():
                return self._finish(verdict)
            if self._daemon.poll() is not None and (verdict := self._ended()):
                return self._finish(verdict)
            if self._signals and (verdict := self._stop()):
                return self._finish(verdict)
            time.sleep(_TICK_S)

    def _link_result(self) -> Verdict | None:
        """Say once how the link test went; the end, when the link corrupts."""
        if self._link is None or not self._link.done():
            return None
        link, self._link = self._link, None
        error = link.exception()
        if isinstance(error, ApplianceError):
            return Verdict(error.exit_code, str(error))
        if error:
            raise error
        if link.result():
            self._console.say(link.result())
        return None

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._signals += 1

    def _stop(self) -> Verdict | None:
        """The first signal asks the guard for an orderly stop; a second one, or the deadline, ends all at once."""
        now = time.monotonic()
        if self._deadline == float("inf"):
            self._console.say("stopping (again to stop at once)")
            self._deadline = now + self._plan.settings.drain_timeout + _STOP_MARGIN_S
        if self._signals > 1:
            return Verdict(0, "stopped at once by a second signal")
        if now >= self._ask_again:  # a guard that dies before it heard is replaced by one that did not
            self._daemon.ask_guard_to_stop()
            self._ask_again = now + _ASK_AGAIN_S
        if now > self._deadline:
            return Verdict(1, "the stop took longer than DSV4_DRAIN_TIMEOUT allows and was cut short")
        return None

    def _ended(self) -> Verdict | None:
        """supervisord is gone: by the guard's will, or by accident, in which case it is started anew."""
        if verdict := read_verdict(self._plan.paths.verdict):
            return verdict
        if self._signals:
            return Verdict(0, "stopped")
        limit, window = self._plan.settings.restart_limit, self._plan.settings.restart_window
        now = time.monotonic()
        self._deaths = [at for at in self._deaths if now - at < window] + [now]
        if len(self._deaths) > limit:
            return Verdict(1, f"supervisord died {len(self._deaths)} times within {window:.0f} s")
        words = f" ({self._daemon.last_words})" if self._daemon.last_words else ""
        self._console.say(f"supervisord died{words}; its programs are ended and started anew")
        sweep.kill(self._plan.paths.run)
        self._daemon.start()
        return None

    def _finish(self, verdict: Verdict) -> int:
        self._console.tick()
        self._daemon.end_hard()
        self._helpers.shutdown()  # its processes carry the run's mark and are gone by now
        files.clean(self._plan.paths)
        self._console.verdict(verdict)
        return verdict.code
