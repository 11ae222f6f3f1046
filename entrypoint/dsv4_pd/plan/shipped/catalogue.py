"""Models that are known by name: config/models/*.toml. Reads files; everything else is pure."""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from dsv4_pd.errors import Problem, SettingsError
from dsv4_pd.plan.model.files import is_folder
from dsv4_pd.settings.schema import Settings


@dataclass(frozen=True, slots=True)
class Entry:
    """One model. What no public source tells is None, and stands in `unknown`."""

    name: str
    description: str
    hub: str
    template: Literal["engine", "file"]
    experts: str | None = None  # "mxfp4" or "nvfp4": the routed experts' weights
    draft: Literal["eagle", "dspark"] | None = None  # the speculative block inside
    revision: str | None = None
    shards: int | None = None
    weights_bytes: int | None = None
    license: str | None = None
    gated: bool | None = None
    context: int | None = None
    refused: str | None = None
    base: str | None = None
    unknown: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)  # as far as it is known


def read_all(folder: Path) -> dict[str, Entry]:
    """Every model of a folder by name, sorted."""
    bases = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("configs/*.json")}
    return {path.stem: _read(path, bases) for path in sorted(folder.glob("*.toml"))}


def _read(path: Path, bases: Mapping[str, Mapping[str, Any]]) -> Entry:
    """One file; a key that no entry has is a programming error and raises TypeError."""
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    if data.get("base"):
        data["config"] = {**bases[data["base"]], **data.get("config", {})}
    for key in ("unknown", "sources"):
        data[key] = tuple(data.get(key, ()))
    return Entry(name=path.stem, **data)


def find(model: str, known: Mapping[str, Entry]) -> Entry | None:
    """The entry of a name of ours, or of a name on the Hub, in any case: the Hub has no two that differ by it alone.

    None for a folder and for what is not known.
    """
    if is_folder(model):
        return None
    name = model.casefold()
    return next((entry for entry in known.values() if name in (entry.name.casefold(), entry.hub.casefold())), None)


def resolve(settings: Settings, known: Mapping[str, Entry]) -> Settings:
    """The settings with the model's own name on the Hub, and the revision that the catalogue pins.

    Raises:
        SettingsError: a name without an owner that is none of ours, or a model that can't be served.
    """
    entry = find(settings.model, known)
    if entry is None:
        if not is_folder(settings.model) and "/" not in settings.model:
            raise SettingsError([_no_such(settings.model, known)])
        return settings
    if entry.refused:
        raise SettingsError([Problem("DSV4_MODEL", repr(settings.model), "a model that fits", entry.refused)])
    pinned = settings.model_revision or entry.revision
    return settings.model_copy(update={"model": entry.hub, "model_revision": pinned})


def _no_such(model: str, known: Mapping[str, Entry]) -> Problem:
    close = difflib.get_close_matches(model, known, n=1, cutoff=0.4)
    remedy = f"did you mean {close[0]}?" if close else "`dsv4-pd models` lists them"
    return Problem("DSV4_MODEL", repr(model), f"one of {', '.join(known)}, a name OWNER/MODEL, or a folder", remedy)
