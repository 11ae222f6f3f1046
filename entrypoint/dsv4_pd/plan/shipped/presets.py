"""Workload presets: data in config/presets/*.toml, each what one kind of load needs. Reads files; the rest is pure.

A preset fills in what the operator left unset, and goes before the profile's own defaults; where a profile's cards hold
less, the preset has values of its own for it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dsv4_pd.errors import Problem, SettingsError
from dsv4_pd.plan.shipped.profiles import Profile
from dsv4_pd.settings.schema import Settings


@dataclass(frozen=True, slots=True)
class Preset:
    """Settings by field; `profile` holds those that a profile has instead."""

    name: str
    description: str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    profile: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def values(self, profile: str) -> dict[str, Any]:
        """What it sets on the hardware of a profile."""
        return {**self.defaults, **self.profile.get(profile, {})}


def read_all(folder: Path) -> dict[str, Preset]:
    """Every preset of a folder by name, sorted; an unknown key is a programming error and raises TypeError."""
    return {
        path.stem: Preset(name=path.stem, **tomllib.loads(path.read_text(encoding="utf-8")))
        for path in sorted(folder.glob("*.toml"))
    }


def chosen(settings: Settings, known: Mapping[str, Preset]) -> Preset | None:
    """The preset of the settings, if they name one."""
    return None if settings.preset is None else known[settings.preset]


def apply(settings: Settings, profile: Profile, known: Mapping[str, Preset]) -> Settings:
    """The settings with the preset's values for what the operator left unset.

    Raises:
        SettingsError: a preset on a CPU profile, whose model and memory it says nothing about.
    """
    preset = chosen(settings, known)
    if preset is None:
        return settings
    if profile.device != "cuda":
        found, expected = f"{settings.preset!r} with the profile {profile.name}", "a profile for GPUs"
        raise SettingsError([Problem("DSV4_PRESET", found, expected, "unset DSV4_PRESET")])
    decided = preset.values(profile.name)
    # More than decode runs at once would fail there: a smaller batch of the operator's own bounds the preset's limit.
    if "max_running_requests" in settings.model_fields_set and "max_concurrent_requests" in decided:
        bound = min(decided["max_concurrent_requests"], settings.max_running_requests)
        decided = {**decided, "max_concurrent_requests": bound}
    return settings.with_defaults(decided)


def shares(preset: Preset, profile: Profile, own: frozenset[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(fields that the preset decided, fields in which the operator's own value won)."""
    names = tuple(preset.values(profile.name))
    return tuple(name for name in names if name not in own), tuple(name for name in names if name in own)
