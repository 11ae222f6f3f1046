"""`dsv4-pd serve`: the parent of supervisord, the foreground of the appliance, the owner of its exit code."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType

from dsv4_pd.doctor import preflight
from dsv4_pd.errors import ApplianceError, Problem, TemporaryError
from dsv4_pd.host.machine import Live
from dsv4_pd.plan.disk import folders
from dsv4_pd.plan.disk.paths import image_key, share_dir
from dsv4_pd.plan.model.files import offline
from dsv4_pd.plan.plan import Plan
from dsv4_pd.plan.situation import Situation
from dsv4_pd.plan.survey import survey
from dsv4_pd.run import files, late_devices
from dsv4_pd.run.arrival import Arrival
from dsv4_pd.run.cache import boot
from dsv4_pd.run.console.base import Console
from dsv4_pd.run.console.choose import choose
from dsv4_pd.run.download import order
from dsv4_pd.run.guard.tell import publish
from dsv4_pd.run.states import StateName
from dsv4_pd.run.supervision import inherited, sweep
from dsv4_pd.run.supervision.daemon import RunEnd, Supervisord, read_verdict
from dsv4_pd.run.supervision.guard_watch import Budget, GuardWatch

_TICK_S = 0.1
_ASK_AGAIN_S = 2.0
_STOP_MARGIN_S = 20.0  # beyond the drain: the router's exit, hard ends, the sweep
# Of a guard that does not hear the stop, before everything is ended without it: replacements, seconds without one.
_STOP_REPLACEMENTS, _UNHEARD_S = 2, 8.0


def run(environ: Mapping[str, str]) -> int:
    """Boot with the settings of an environment, serve until the end, and return the exit code."""
    situation = late_devices.survey_when_there(
        lambda: survey(environ, Live()), Live(), lambda text: print(f"dsv4-pd: {text}", file=sys.stderr, flush=True)
    )
    paths = preflight.planned(situation).paths
    inherited.repair()
    folders.make(paths)
    with folders.lock(paths):
        if sweep.kill(paths.run):  # orphans of a run that was killed held ports and cards
            situation = survey(environ, Live())
        plan = preflight.refuse(situation)
        if _model_is_missing(situation, environ):
            if not _bring_model(plan, situation, environ):
                return 0
            plan = _replanned(environ)
        compiled = _prepare(plan)
        with choose(plan) as console:
            return Foreground(plan, console, compiled.lines).run()


def _model_is_missing(situation: Situation, environ: Mapping[str, str]) -> bool:
    """By the survey that the plan is made of, too: another container may have fetched the model since."""
    settings = situation.settings
    if settings.role == "router":
        return False  # it loads none
    state = situation.around.paths.state
    return situation.around.model.path is None or order.needed(settings.model, settings.model_revision, environ, state)


def _replanned(environ: Mapping[str, str]) -> Plan:
    """The plan with the model that is here now.

    Raises:
        ApplianceError: what the model's own files refuse, or that they are gone again.
    """
    situation = survey(environ, Live())
    plan = preflight.refuse(situation)
    if situation.around.model.path is None:
        found, expected = f"{plan.settings.model!r}, fetched and gone again", "a cache that keeps what is fetched"
        raise TemporaryError([Problem("HF_HOME", found, expected, "look what empties that folder, and start again")])
    return plan


def _bring_model(plan: Plan, situation: Situation, environ: Mapping[str, str]) -> bool:
    """Fetch or check the model while the ops port says so; False when a signal ended it.

    One of which nothing is known is looked at first: what these cards can't serve is not fetched.

    Raises:
        ApplianceError: with the cause, when it can't be had or served.
    """
    sweep.begin(plan.paths.run)
    with choose(plan) as console:
        if situation.around.config is None and not offline(environ):
            ahead = Arrival(plan, console).look()
            if ahead is None:
                return False
            preflight.refuse(survey(environ, Live(), ahead))
        return Arrival(plan, console).run()


def _prepare(plan: Plan) -> boot.Prepared:
    """Write the files of this run, and see to the engine's compiled kernels.

    Raises:
        TemporaryError: when a file can't be written.
    """
    try:
        files.clean(plan.paths)
        sweep.begin(plan.paths.run)
        files.write(plan.files)
        prebuilt = share_dir() / "caches" if plan.placement.device == "cuda" else None  # a CPU engine has none of these
        return boot.prepare(plan.paths.cache, prebuilt, image_key())
    except OSError as error:
        where = error.filename or plan.paths.run
        expected = "run and cache folders that can be written"
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = "free some space there" if full else f"let uid {os.geteuid()} write there, or remove it"
        raise TemporaryError([Problem(str(where), str(error.strerror), expected, remedy)]) from error


class Foreground:
    """Runs supervisord, shows what happens, turns signals into a clean stop. Whatever ends it ends all of them."""

    def __init__(self, plan: Plan, console: Console, notes: Sequence[str] = ()) -> None:
        self._plan = plan
        self._console = console
        self._notes = notes  # said once the console shows what is said
        self._daemon = Supervisord(plan.paths, plan.environ)
        budget = Budget(plan.settings.restart_limit, plan.settings.restart_window)
        self._watch = GuardWatch(plan.paths.supervisor_socket, plan.paths.health, budget, self._say)
        self._signals = 0
        self._ask_again = 0.0
        self._deadline = float("inf")
        self._replaced = 0  # guards, when the stop began
        self._unheard = 0.0  # seconds of the stop without a guard that lives
        self._deaths: list[float] = []
        self._link: list[str | RunEnd] = []
        self._shown_badly = False

    def run(self) -> int:
        """Until the verdict is in and nothing of ours is left."""
        verdict = RunEnd(1, "serve was interrupted")
        try:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, self._on_signal)
            verdict = self._serve()
        except Exception as error:  # a defect here must not leave servers behind, nor hide behind a traceback
            verdict = RunEnd(1, f"a defect in serve: {_where(error)}")
        finally:
            self._end()
        self._show(self._console.verdict, verdict)
        return verdict.code

    def _serve(self) -> RunEnd:
        self._start()
        # Beside the servers' load, which takes longer; a link that corrupts ends the start before READY.
        threading.Thread(target=self._prove_link, name="link test", daemon=True).start()
        while True:
            self._show(self._console.tick)
            if verdict := self._link_result() or self._look():
                return verdict
            time.sleep(_TICK_S)

    def _look(self) -> RunEnd | None:
        """The end, when there is one: of supervisord, by a signal, or because the guard can't be kept up."""
        if self._daemon.poll() is not None:
            return self._ended()
        if self._signals and (verdict := self._stop()):
            return verdict
        if cause := self._watch.tick():
            return RunEnd(1, cause)
        if self._watch.hung_daemon:
            self._say("supervisord has not answered for 30 s; it is replaced")
            self._daemon.kill()
        return None

    def _start(self) -> None:
        for note in self._notes:
            self._say(note)
        self._notes = ()
        self._daemon.start()
        self._watch.restarted(self._daemon.pid)

    def _prove_link(self) -> None:
        """Only bytes that arrived wrong end the start; a test that fails says nothing of the link."""
        try:
            self._link.append(preflight.prove_link(self._plan))
        except ApplianceError as error:
            self._link.append(RunEnd(error.exit_code, str(error)))
        except Exception as error:
            self._link.append(f"KV link: not tested: {_where(error)}")

    def _link_result(self) -> RunEnd | None:
        """Say once how the link test went; the end, when the link corrupts."""
        found = self._link.pop() if self._link else ""
        if isinstance(found, RunEnd):
            return found
        if found:
            self._say(found)
        return None

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._signals += 1

    def _stop(self) -> RunEnd | None:
        """The first signal asks the guard for an orderly stop; a second one, or the deadline, ends all at once."""
        now = time.monotonic()
        if self._deadline == float("inf"):
            self._say("stopping (signal again to stop immediately)")
            self._deadline = now + self._plan.settings.drain_timeout + _STOP_MARGIN_S
            self._watch.stopping()
            self._replaced = self._watch.replaced
        if self._signals > 1:
            return RunEnd(0, "stopped immediately by a second signal")
        if now >= self._ask_again:  # a guard that dies before it heard is replaced by one that did not
            self._daemon.ask_guard_to_stop()
            self._ask_again = now + _ASK_AGAIN_S
        self._unheard += 0.0 if self._watch.beating else _TICK_S  # counted in looks, as silence is
        given_up = self._unheard > _UNHEARD_S and not self._plan.paths.verdict.exists()
        if given_up or self._watch.replaced - self._replaced >= _STOP_REPLACEMENTS:
            return RunEnd(0, "stopped; the guard did not respond, so requests in flight were not drained")
        if now > self._deadline:
            return RunEnd(1, "the stop exceeded DSV4_DRAIN_TIMEOUT and was forced")
        return None

    def _ended(self) -> RunEnd | None:
        """supervisord is gone: by the guard's will, or by accident, in which case it is restarted."""
        if verdict := read_verdict(self._plan.paths.verdict):
            return verdict
        if self._signals:
            return RunEnd(0, "stopped")
        limit, window = self._plan.settings.restart_limit, self._plan.settings.restart_window
        now = time.monotonic()
        self._deaths = [at for at in self._deaths if now - at < window] + [now]
        if len(self._deaths) > limit:
            return RunEnd(1, f"supervisord died {len(self._deaths)} times within {window:.0f} s")
        words = f" ({self._daemon.last_words})" if self._daemon.last_words else ""
        self._say(f"supervisord died{words}; its programs are terminated and restarted")
        sweep.kill(self._plan.paths.run)
        self._tell_recovering(f"supervisord died{words}")
        self._start()
        return None

    def _tell_recovering(self, cause: str) -> None:
        """The guard was ended with the rest, maybe before it could say so: no stale READY until the next one speaks."""
        last = publish.read_json(self._plan.paths.health)
        if last and last.get("state") != StateName.SAFE:  # SAFE is what the next guard goes on with
            now = {"state": StateName.RECOVERING.value, "serving": False, "reason": cause}
            publish.write_json(self._plan.paths.health, last | now)

    def _end(self) -> None:
        """Leave nothing: processes, shared memory, files of this run."""
        self._show(self._console.tick)
        for act in (self._daemon.end_hard, lambda: files.clean(self._plan.paths)):
            with contextlib.suppress(OSError):
                act()

    def _say(self, text: str) -> None:
        self._show(self._console.say, text)

    def _show(self, show: Callable[..., None], *args: object) -> None:
        """What can't be shown is no reason to end; the first failure is told to whoever reads on."""
        try:
            show(*args)
        except Exception as error:
            if not self._shown_badly:
                self._shown_badly = True
                self._show(self._console.say, f"the console failed: {_where(error)}")


def _where(error: Exception) -> str:
    """An unforeseen error in one line, with the place that it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())}{place}"
