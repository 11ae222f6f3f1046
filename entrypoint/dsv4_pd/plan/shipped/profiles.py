"""Hardware profiles: data in config/profiles/*.toml, each the validated layout for one kind of machine."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from dsv4_pd.errors import Problem, SettingsError


@dataclass(frozen=True, slots=True)
class GpuNeed:
    """What a profile asks of the GPUs. Memory in GB (10^9 bytes)."""

    count: int
    compute_capability: tuple[int, int]
    min_memory_gb: float


@dataclass(frozen=True, slots=True)
class Profile:
    """One layout: device, roles and the engine flags that belong to the hardware."""

    name: str
    description: str
    device: Literal["cuda", "cpu"]
    gpus: GpuNeed | None
    tensor_parallel: Mapping[str, int]  # role -> GPUs; 0: every GPU
    model: str | None = None  # a folder below the shared data, instead of DSV4_MODEL's default
    engine_path: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)  # settings that the operator left unset
    engine: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # "common" or role -> flag -> value
    engine_env: Mapping[str, str] = field(default_factory=dict)


def available(folder: Path) -> tuple[str, ...]:
    """Names of the profiles in a folder, sorted."""
    return tuple(sorted(path.stem for path in folder.glob("*.toml")))


def read_all(folder: Path) -> dict[str, Profile]:
    """Every profile of a folder by name, sorted."""
    return {name: parse(name, (folder / f"{name}.toml").read_text(encoding="utf-8")) for name in available(folder)}


def pick(known: Mapping[str, Profile], name: str) -> Profile:
    """One of the profiles that were read.

    Raises:
        SettingsError: when no such profile exists; names the closest.
    """
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
        remedy = f"did you mean {close[0]}?" if close else "unset it to choose by the GPUs found"
        raise SettingsError([Problem("DSV4_PROFILE", repr(name), f"auto or one of {', '.join(known)}", remedy)])
    return known[name]


def parse(name: str, text: str) -> Profile:
    """A profile from its TOML text; an unknown key is a programming error and raises TypeError."""
    data = tomllib.loads(text)
    need = data.pop("gpus", None)
    if need is not None:
        need = GpuNeed(need["count"], tuple(need["compute_capability"]), need["min_memory_gb"])
    data["engine_path"] = tuple(data.get("engine_path", ()))
    return Profile(name=name, gpus=need, **data)
