"""From the environment to a ready set of files: read top to bottom."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dsv4_pd.host.facts import HostFacts
from dsv4_pd.host.read import read_facts
from dsv4_pd.plan import folders, profiles
from dsv4_pd.plan.about import about
from dsv4_pd.plan.guard_build import build as build_guard
from dsv4_pd.plan.paths import Paths, profiles_dir, share_dir
from dsv4_pd.plan.placement import Placement, choose_profile, plan
from dsv4_pd.plan.profiles import Profile
from dsv4_pd.plan.programs import ConfigFile, NumaPolicy, Program, Surroundings, programs
from dsv4_pd.plan.supervisord_conf import render
from dsv4_pd.settings.load import load as load_settings
from dsv4_pd.settings.schema import Settings


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that `serve` is about to do; `dsv4-pd plan` prints it."""

    settings: Settings
    facts: HostFacts
    profile: Profile
    placement: Placement
    paths: Paths
    programs: tuple[Program, ...]

    @property
    def files(self) -> tuple[ConfigFile, ...]:
        """Every file that the run needs, supervisord's own last."""
        own = tuple(file for program in self.programs for file in program.files)
        known = about(self.settings, self.profile, self.facts, self.placement, self.paths)
        guard = build_guard(self.settings, self.profile, self.placement, self.programs, self.paths, known)
        return (
            *own,
            ConfigFile(self.paths.guard_config, guard.to_json()),
            ConfigFile(self.paths.supervisor_conf, render(self.programs, self.paths)),
        )


def make_plan(
    facts: HostFacts | None = None,
    numa_policy: NumaPolicy | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Plan:
    """Settings, facts, placement, programs; starts nothing and writes nothing.

    Raises:
        SettingsError, HardwareError: with every problem found.
    """
    settings = load_settings()
    facts = facts or read_facts()
    profile = profiles.load(profiles_dir(), choose_profile(settings, facts))
    settings = complete(settings, profile, share_dir())
    placement = plan(settings, profile, facts)
    paths = folders.resolve(settings, environ)
    around = Surroundings(paths, numa_policy or "none", environ, share_dir())
    return Plan(settings, facts, profile, placement, paths, programs(settings, profile, placement, around))


def complete(settings: Settings, profile: Profile, share: Path) -> Settings:
    """What the operator left unset, from the profile."""
    settings = settings.with_defaults(profile.defaults)
    return settings.with_defaults({"model": str(share / profile.model)}) if profile.model else settings


def write(files: tuple[ConfigFile, ...]) -> None:
    """Write each file with its mode from the first byte on, atomically."""
    for file in files:
        fresh = file.path.with_name(file.path.name + ".new")
        fresh.unlink(missing_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, file.mode), "w", encoding="utf-8") as out:
            out.write(secrets.token_urlsafe(32) if file.drawn else file.text)
        fresh.replace(file.path)


def clean(paths: Paths) -> None:
    """Remove what a run left in its folder, logs excepted: they explain how it ended."""
    for path in paths.run.iterdir():
        if (path.is_file() and path.name != "lock") or path.is_socket():
            path.unlink(missing_ok=True)
    for folder in (paths.plugin_records, paths.temp):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
