"""`dsv4-pd doctor`: every check on this machine, or on a captured one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import click

from dsv4_pd.doctor.base import Around, Check, Finding, Situation, fail
from dsv4_pd.doctor.catalogue import examine, worst
from dsv4_pd.doctor.gather import appliance_runs, gather
from dsv4_pd.doctor.preflight import permission
from dsv4_pd.doctor.report import as_text, as_values
from dsv4_pd.errors import ApplianceError
from dsv4_pd.host.capture import capture, to_json
from dsv4_pd.host.facts import HostFacts
from dsv4_pd.host.machine import Live
from dsv4_pd.host.read import read_facts
from dsv4_pd.plan import boot, folders, profiles
from dsv4_pd.plan.paths import profiles_dir, share_dir
from dsv4_pd.plan.placement import Placement, choose_profile, plan
from dsv4_pd.plan.programs import Program, Surroundings, programs
from dsv4_pd.settings.load import load as load_settings
from dsv4_pd.settings.schema import Settings

_FOLDER = click.Path(file_okay=False, path_type=Path)


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--quiet", "-q", is_flag=True, help="Print only what is not in order.")
@click.option("--link", "with_link", is_flag=True, help="Also move bytes over NIXL, as the two roles will.")
@click.option("--capture", "capture_to", type=_FOLDER, help="Write what was read to this folder, scrubbed; then end.")
@click.option("--replay", type=_FOLDER, help="Examine the machine captured in this folder instead of this one.")
@click.pass_context
def command(
    ctx: click.Context, as_json: bool, quiet: bool, with_link: bool, capture_to: Path | None, replay: Path | None
) -> None:
    """Say what is wrong with this machine, why it matters and what mends it. Exit 0: well, 1: warnings, 2: failures."""
    if capture_to:
        click.echo(f"wrote {save(capture_to)}")
        return
    facts = read_facts(replay) if replay else read_facts()
    situation = diagnose(load_settings(), facts, (lambda *_: Around()) if replay else around)
    found = examine(situation)
    if with_link:
        found = (*found, link_finding(situation))
    if as_json:
        click.echo(json.dumps({"exit": worst(found), "checks": as_values(found)}, indent=2))
    else:
        click.echo(as_text(found, everything=not quiet))
    ctx.exit(worst(found))


def save(folder: Path) -> Path:
    """Capture this machine: machine.json for a replay, facts.json for `plan --facts`."""
    written = capture(Live(), folder)
    (folder / "facts.json").write_text(to_json(read_facts(folder)), encoding="utf-8")
    return written


_AroundOf = Callable[[Settings, profiles.Profile | None, Placement | None], Around]


def diagnose(settings: Settings, facts: HostFacts, around_of: _AroundOf) -> Situation:
    """The situation, with the reason in it where there is no plan: the other checks then still speak."""
    profile, placement, refusal = None, None, None
    try:
        profile = profiles.load(profiles_dir(), choose_profile(settings, facts))
        settings = boot.complete(settings, profile, share_dir())
        placement = plan(settings, profile, facts)
    except ApplianceError as error:
        refusal = error
    return Situation(settings, profile, facts, placement, refusal, around_of(settings, profile, placement))


def around(settings: Settings, profile: profiles.Profile | None, placement: Placement | None) -> Around:
    """What is around the facts on this machine; without a plan no ports are tried."""
    paths = folders.resolve(settings, os.environ)
    numa = permission()
    programs_ = _programs(settings, profile, placement)
    return gather(settings, programs_, paths, numa, os.environ, running=appliance_runs(paths.run))


def _programs(settings: Settings, profile: profiles.Profile | None, placement: Placement | None) -> tuple[Program, ...]:
    if profile is None or placement is None:
        return ()
    paths = folders.resolve(settings, os.environ)
    return programs(settings, profile, placement, Surroundings(paths, "none", os.environ, share_dir()))


def link_finding(s: Situation) -> tuple[Check, Finding]:
    """The KV link's own test, as a finding."""
    from dsv4_pd.doctor.checks import kv_link
    from dsv4_pd.doctor.link.run import measure

    if s.placement is None or not s.around.engine_python:
        return kv_link.CHECK, fail("not tested: no plan or no engine", "mend gpu-plan and engine-installed first")
    todo = _programs(s.settings, s.profile, s.placement)
    return kv_link.CHECK, kv_link.judge(measure(s.settings.engine_python, s.placement, todo, os.environ))
