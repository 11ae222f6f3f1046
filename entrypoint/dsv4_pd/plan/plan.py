"""Everything that `serve` is about to do, as one value: made from values already read, pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dsv4_pd.host.facts import HostFacts
from dsv4_pd.plan.around.surroundings import Surroundings
from dsv4_pd.plan.disk.paths import Paths
from dsv4_pd.plan.placement.place import Placement, place
from dsv4_pd.plan.programs.about import about
from dsv4_pd.plan.programs.environment import child_environment
from dsv4_pd.plan.programs.guard_build import build as build_guard
from dsv4_pd.plan.programs.program import PER_RUN, ConfigFile, Program, programs
from dsv4_pd.plan.programs.published import published
from dsv4_pd.plan.programs.supervisord_conf import render
from dsv4_pd.plan.shipped import presets
from dsv4_pd.plan.shipped.presets import Preset
from dsv4_pd.plan.shipped.profiles import Profile
from dsv4_pd.settings.schema import Settings


@dataclass(frozen=True, slots=True)
class Plan:
    """What is started: `dsv4-pd plan` prints it, `serve` writes its files and starts supervisord on them."""

    settings: Settings  # with the profile's defaults
    facts: HostFacts
    profile: Profile
    placement: Placement
    paths: Paths
    environ: Mapping[str, str]  # what every child inherits; its program's own variables come on top
    programs: tuple[Program, ...]
    about: Mapping[str, Any]  # what /status tells of versions and machine
    files: tuple[ConfigFile, ...]  # every file that the run needs, supervisord's own last


def make_plan(settings: Settings, profile: Profile, facts: HostFacts, around: Surroundings) -> Plan:
    """Placement, programs, files; starts nothing and writes nothing. `settings` are complete.

    Raises:
        SettingsError, HardwareError: with every problem found.
    """
    placement = place(settings, profile, facts)
    started = programs(settings, profile, placement, around)
    known = about(settings, profile, facts, placement, around)
    if (told := published(settings, profile, placement, around)) is not None:
        known["agreement"] = told
    guard = build_guard(settings, profile, placement, started, around.paths, known, around.shape)
    files = (
        *(file for program in started for file in program.files),
        ConfigFile(around.paths.guard_config, guard.to_json()),
        ConfigFile(around.paths.supervisor_conf, render(started, around.paths)),
    )
    environ = child_environment(around.environ, PER_RUN)
    return Plan(settings, facts, profile, placement, around.paths, environ, started, known, files)


def complete(settings: Settings, profile: Profile, known: Mapping[str, Preset], share: Path) -> Settings:
    """What the operator left unset, from the preset and then from the profile.

    Raises:
        SettingsError: a preset that the profile can't have.
    """
    settings = presets.apply(settings, profile, known)
    settings = settings.with_defaults(profile.defaults)
    return settings.with_defaults({"model": str(share / profile.model)}) if profile.model else settings
