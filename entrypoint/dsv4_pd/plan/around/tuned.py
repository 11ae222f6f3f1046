"""Receipts of `dsv4-pd tune`: which layout was measured best here, and whether that still holds. Reads one folder.

A receipt is TOML in state/tuned: what it was measured on (`[key]`), what was chosen (`[chosen]`), what it gave
(`[measured]`). It is followed where nothing else says the layout, and only where every part of the key is the same.
"""

from __future__ import annotations

import os
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dsv4_pd import __version__
from dsv4_pd.host.facts import HostFacts
from dsv4_pd.plan.around import surroundings
from dsv4_pd.plan.disk import folders
from dsv4_pd.settings.layout import Layout, parse
from dsv4_pd.settings.schema import PREFIX, SECRETS, Settings, env_name

FOLDER = "tuned"
NAME = "layout.toml"
FORMAT = 1
# Settings that name the layout or the cards: who sets one of them has chosen by hand.
_BY_HAND = ("layout", "prefill_gpus", "decode_gpus")
EXTRA = ("prefill_extra_args", "decode_extra_args")  # where flags of every server go
_ENGINE = "SGLANG_"  # no other variable is the engine's


@dataclass(frozen=True, slots=True)
class Tuned:
    """What a receipt says about this start: the layout to follow, or None and the reason."""

    layout: Layout | None
    line: str
    users: str | None = None  # what the measured layout served, in one line


def path_of(state: Path) -> Path:
    """The receipt of layouts."""
    return state / FOLDER / NAME


def key_of(settings: Settings, facts: HostFacts, environ: Mapping[str, str]) -> dict[str, Any]:
    """What a choice holds for; another card, driver, image, engine or model, and it must be measured again."""
    versions = surroundings.installed_versions(settings.engine_python)
    return {
        "cards": [gpu.name for gpu in facts.gpus],
        "driver": facts.driver_version or "none",
        "image": environ.get("DSV4_IMAGE") or f"dsv4-pd {__version__}",
        "engine": versions.get("sglang", "unknown"),
        "model": f"{settings.model}@{settings.model_revision or 'default'}",
        "profile": settings.profile,
        "preset": settings.preset or "none",
    }


def follow(settings: Settings, facts: HostFacts, environ: Mapping[str, str]) -> tuple[dict[str, str], Tuned | None]:
    """The environment with what was measured best, where a receipt is to be followed, and what there is to say. What
    the operator set stays: a receipt decides only what is left open.
    """
    path = path_of(folders.resolve(settings, environ).state)
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        found = judge(data, key_of(settings, facts, environ), path)
        wanted = _variables(data["chosen"], settings)
    except FileNotFoundError:
        return dict(environ), None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return dict(environ), Tuned(None, f"{path} is no receipt of dsv4-pd tune ({error}) and is ignored")
    if found.layout is None:
        return dict(environ), found
    if by_hand := [name for name in _BY_HAND if chosen(settings, name)]:
        names = ", ".join(map(settings.variable, by_hand))
        line = f"measured best here: {found.layout} ({path}); not followed, because {names} is set"
        return dict(environ), Tuned(None, line)
    return _overlaid(environ, wanted), found


def _variables(chosen_: Mapping[str, Any], operators: Settings) -> dict[str, str]:
    """The layout, settings, flags and the engine's own variables, as an environment.

    Raises:
        ValueError: a setting that is none, or a variable that is not the engine's.
    """
    fields = {str(name): str(value) for name, value in chosen_.get("settings", {}).items()}
    own = {str(name): str(value) for name, value in chosen_.get("variables", {}).items()}
    strange = [name for name in fields if name not in Settings.model_fields or name in SECRETS]
    if strange := [*strange, *(name for name in own if not name.startswith(_ENGINE))]:
        raise ValueError(f"{', '.join(strange)}: neither a setting nor the engine's")
    if flags := shlex.join(map(str, chosen_.get("flags", []))):
        fields |= {name: f"{getattr(operators, name)} {flags}".strip() for name in EXTRA}
    settings = {env_name(field): value for field, value in fields.items()}
    return {**own, **settings, env_name("layout"): str(parse(chosen_["layout"]))}


def _overlaid(environ: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
    """What is set and not `auto` stays; names of ours count in any case.

    >>> _overlaid({"dsv4_layout": "auto", "DSV4_PORT": "1"}, {"DSV4_LAYOUT": "pd:1+1", "DSV4_PORT": "2"})
    {'DSV4_LAYOUT': 'pd:1+1', 'DSV4_PORT': '1'}
    """
    open_ = {name for name, text in environ.items() if text.strip().lower() in ("", "auto")}
    kept = {name: text for name, text in environ.items() if not (name in open_ and name.upper() in wanted)}
    appended = {env_name(name) for name in EXTRA} & set(wanted)  # the operator's words stand in them already
    kept = {name: text for name, text in kept.items() if name.upper() not in appended}
    given = {name.upper() if name.upper().startswith(PREFIX) else name for name in kept}
    return {**{name: text for name, text in wanted.items() if name not in given}, **kept}


def chosen(settings: Settings, name: str) -> bool:
    """Whether the operator decides by this field; `auto` decides nothing."""
    return name in settings.model_fields_set and getattr(settings, name) not in (None, "auto", ())


def judge(data: Mapping[str, Any], key: Mapping[str, Any], path: Path | str) -> Tuned:
    """A receipt held against this machine.

    Raises:
        KeyError, ValueError, TypeError: it is none.
    """
    if data["format"] != FORMAT:
        raise ValueError(f"format {data['format']!r}, expected {FORMAT}")
    layout = parse(data["chosen"]["layout"])
    then = data["key"]
    changed = [
        f"{name} {_text(then.get(name))}, now {_text(now)}" for name, now in key.items() if then.get(name) != now
    ]
    if changed:
        return Tuned(
            None, f"{path} is stale and is ignored: measured with {'; '.join(changed)}; run dsv4-pd tune again"
        )
    measured = data["measured"]
    line = f"layout {layout}: measured best here on {data['time'][:10]} ({data['workload']}; {path})"
    users = (
        f"measured under {data['workload']}: {measured['concurrency']} requests at once, "
        f"{measured['per_s']:.3g} requests/s, {measured['tokens_per_s']:,.0f} tokens/s, "
        f"first token after {measured['ttft']:.3g} s, a whole answer in {measured['latency']:.3g} s on average"
    )
    return Tuned(layout, line, users)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return f"{len(value)} x {value[0]}" if value and len(set(value)) == 1 else (", ".join(value) or "no GPU")
    return str(value)


def remove(state: Path) -> list[Path]:
    """Every receipt; says which were there."""
    gone = sorted((state / FOLDER).glob("*.toml")) if (state / FOLDER).is_dir() else []
    for path in gone:
        os.unlink(path)  # noqa: PTH108
    return gone
