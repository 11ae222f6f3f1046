"""The data that the product ships for planning, read once: profiles, presets, the catalogue of models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dsv4_pd.plan.disk.paths import models_dir, presets_dir, profiles_dir
from dsv4_pd.plan.shipped import catalogue, presets, profiles
from dsv4_pd.plan.shipped.catalogue import Entry
from dsv4_pd.plan.shipped.presets import Preset
from dsv4_pd.plan.shipped.profiles import Profile


@dataclass(frozen=True, slots=True)
class Shipped:
    """Files of config/ by their names."""

    profiles: Mapping[str, Profile]
    presets: Mapping[str, Preset]
    models: Mapping[str, Entry]


def read() -> Shipped:
    """Every file once."""
    return Shipped(
        profiles=profiles.read_all(profiles_dir()),
        presets=presets.read_all(presets_dir()),
        models=catalogue.read_all(models_dir()),
    )
