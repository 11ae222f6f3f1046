"""`dsv4-pd serve`: what comes before the servers run, in order; `run.foreground` has them from then on."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Mapping

from dsv4_pd.doctor import preflight
from dsv4_pd.errors import Problem, TemporaryError
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
from dsv4_pd.run.console.choose import choose
from dsv4_pd.run.download import order
from dsv4_pd.run.foreground import Foreground
from dsv4_pd.run.supervision import inherited, sweep


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
