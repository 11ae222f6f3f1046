"""Engine switches that may be tried: data in config/switches.toml; which of them apply here. Pure but for `read`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dsv4_pd.bench.tune.state import Candidate
from dsv4_pd.plan.disk.paths import share_dir
from dsv4_pd.plan.flags.extra_args import engine_flags
from dsv4_pd.plan.model.checkpoint import Config, expert_format
from dsv4_pd.plan.placement.place import Placement
from dsv4_pd.settings.schema import Settings

_LISTS = ("flags", "compute", "experts")
_ENGINE = "SGLANG_"  # only the engine's own variables are switches


@dataclass(frozen=True, slots=True)
class Switch:
    """One row of the table; its comments say what each part means."""

    name: str
    what: str
    default: str
    source: str
    variables: Mapping[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    compute: tuple[str, ...] = ()
    experts: tuple[str, ...] = ()
    parallel: bool = False
    speculative: bool = False


def read(path: Path | None = None) -> tuple[Switch, ...]:
    """The table; an unknown key is a programming error and raises TypeError."""
    text = (path or share_dir() / "config" / "switches.toml").read_text(encoding="utf-8")
    return tuple(_switch(row) for row in tomllib.loads(text)["switch"])


def _switch(row: dict[str, Any]) -> Switch:
    found = Switch(**{**row, **{name: tuple(row.get(name, ())) for name in _LISTS}})
    if strange := [name for name in found.variables if not name.startswith(_ENGINE)]:
        raise ValueError(f"{found.name}: {', '.join(strange)}: not the engine's")
    return found


def obstacle(
    switch: Switch, placement: Placement, settings: Settings, environ: Mapping[str, str], config: Config | None = None
) -> str | None:
    """Why it can't be tried here, with the model of this config.json; None: it may."""
    here = sorted({".".join(map(str, gpu.compute_capability)) for gpu in placement.visible}) or ["cpu"]
    if switch.compute and (missing := [kind for kind in here if kind not in switch.compute]):
        return f"is for {', '.join(switch.compute)}, not {', '.join(missing)}"
    experts = expert_format(config or {})
    if switch.experts and experts and experts not in switch.experts:
        return f"is for experts in {', '.join(switch.experts)}, not {experts}"
    if switch.parallel and all(role.tensor_parallel == 1 for role in placement.roles):
        return "needs servers of several GPUs"
    if switch.speculative and settings.speculative == "off":
        return "needs speculative decoding"
    if taken := [name for name in switch.variables if environ.get(name)]:
        return f"{', '.join(taken)} is set by hand"
    by_hand = {**engine_flags(settings.prefill_extra_args), **engine_flags(settings.decode_extra_args)}
    if taken := [flag for flag in switch.flags if flag in by_hand]:
        return f"{', '.join(taken)} is in the extra arguments"
    return None


def candidate(switch: Switch, settings: Settings, layout: str) -> Candidate:
    """What is started for it, on a layout."""
    wanted = {name: amount(text, getattr(settings, name)) for name, text in switch.settings.items()}
    return Candidate(
        name=switch.name,
        stage="switches",
        layout=layout,
        settings=wanted,
        variables=dict(switch.variables),
        flags=list(switch.flags),
    )


def amount(text: str, present: Any) -> str:
    """A value, or one made of the present one; whole numbers stay whole.

    >>> amount("x0.5", 8192), amount("+0.03", 0.85), amount("off", "auto")
    ('4096', '0.88', 'off')
    """
    if text[0] not in "x+":
        return text
    value = present * float(text[1:]) if text[0] == "x" else present + float(text[1:])
    return str(int(value)) if isinstance(present, int) else f"{value:g}"
