"""A migration as a .env file: settings first, then, in comments, what became of everything else. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dsv4_pd.plan.migrate.accounts import Account, Fate
from dsv4_pd.plan.migrate.translate import MODELS, Migration
from dsv4_pd.settings.redact import Redactor

KEY_FILE = "./dsv4-api-key"
_TITLES = {
    Fate.SETTING: "Said by the settings above",
    Fate.EXTRA: "Handed on as extra arguments",
    Fate.KEPT: "Variables of other tools, which keep their meaning",
    Fate.OWN: "What the product does anyway: nothing to set",
    Fate.NONE: "Without an equivalent, and why",
}
_PLAIN = re.compile(r"[A-Za-z0-9_./:,@%+=~-]*")


def env_file(found: Migration, key_file: str | None = None) -> str:
    """The text; no secret that the units hold is in it, wherever it stood."""
    hide = Redactor(sorted(found.secrets)).text
    lines = ["# Written by `dsv4-pd migrate`. docs/migrate.md says what to check before the old units go.", ""]
    lines += [*_compose(found), ""]
    lines += [f"{name}={quoted(value)}" for name, value in found.settings.items()]
    lines += _key(found, key_file)
    if found.kept:
        lines += ["", f"# {_TITLES[Fate.KEPT]}", *(f"{name}={quoted(value)}" for name, value in found.kept.items())]
    if found.notes or found.problems:
        lines += ["", *(f"# CHECK: {hide(_one_line(note))}" for note in found.notes)]
        lines += [f"# WRONG: {hide(str(problem))}" for problem in found.problems]
    for fate, title in _TITLES.items():
        accounts = [one for one in found.accounts if one.fate is fate]
        if accounts:
            lines += ["", f"# --- {title}", *map(hide, _listed(accounts))]
    return "\n".join(lines) + "\n"


def _compose(found: Migration) -> list[str]:
    """What compose.yaml itself asks for; no program reads it."""
    below = found.settings.get("DSV4_MODEL", "").startswith(MODELS)
    mounted = [f"MODELS_DIR={MODELS.rstrip('/')}"] if below else []
    return [
        "# For `docker compose`: what a plain `up` starts, and the folder of models.",
        "COMPOSE_PROFILES=gpu",
        *mounted,
    ]


def _key(found: Migration, key_file: str | None) -> list[str]:
    """The key's file is named even before it is there: a start without the key that clients send is refused."""
    if found.key is None:
        return []
    here = [f"DSV4_API_KEY_FILE={quoted(key_file or KEY_FILE)}"]
    if key_file:
        how = f"in a container group 0 reads it: sudo chgrp 0 {key_file}; sudo chmod 640 {key_file}"
        return ["", f"# The key of {found.key_origin}; {how}", *here]
    how = "write the key into this file yourself, or run this again with --key-file FILE, which does it"
    return ["", f"# The key stands in {found.key_origin}; {how}.", *here]


def _listed(accounts: list[Account]) -> Iterator[str]:
    width = min(64, max(len(one.what) for one in accounts))
    for one in dict.fromkeys(accounts):
        yield f"# {one.unit}  {_one_line(one.what).ljust(width)}  {one.why}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def quoted(value: str) -> str:
    """A value that compose, a shell and a person read alike.

    >>> quoted("a b"), quoted("it's $5"), quoted("/m/x")
    ("'a b'", '"it\\'s \\\\$5"', '/m/x')
    """
    if _PLAIN.fullmatch(value):
        return value
    if "'" not in value:
        return f"'{value}'"
    escaped = re.sub(r'(["\\$`])', r"\\\1", value)
    return f'"{escaped}"'
