"""Read the settings: the given environment and secret files, every problem reported at once."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dsv4_pd.errors import Problem, SettingsError
from dsv4_pd.settings import layout
from dsv4_pd.settings.fields import UnusableKey, bare
from dsv4_pd.settings.schema import (
    COMPOSE_RENAMED,
    COMPOSE_VERSION,
    FOREIGN,
    PREFIX,
    SECRETS,
    Settings,
    env_name,
    names,
)

_SECRET_MAX = 64 * 1024  # bytes of a secret's file that are read at most


def load(environ: Mapping[str, str]) -> Settings:
    """The settings of an environment; names in any case, blank means unset.

    Raises:
        SettingsError: with every problem at once: unknown names, bad values, clashes.
    """
    secrets, problems = _read_secret_files(environ)
    problems += [_unknown(name) for name in sorted(environ) if _is_unknown(name)]
    problems += _port_clashes(environ)
    problems += _renamed(environ)
    problems += _contradiction(environ)
    try:
        settings = Settings(**(_values(environ) | secrets))
    except ValidationError as error:
        problems += [_problem(item, frozenset(secrets)) for item in error.errors()]
    if problems:
        raise SettingsError(problems)
    return settings


def _values(environ: Mapping[str, str]) -> dict[str, Any]:
    """Field -> text of its variable; an exact name wins over one in another case."""
    by_name = {name.upper(): value for name, value in sorted(environ.items(), reverse=True) if value}
    return {field: by_name[env_name(field)] for field in Settings.model_fields if env_name(field) in by_name}


def _read_secret_files(environ: Mapping[str, str]) -> tuple[dict[str, Any], list[Problem]]:
    """(field -> the text of its file, what is wrong with those that could not be read)."""
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    for field in SECRETS:
        name, path = env_name(field), environ.get(env_name(field) + "_FILE", "")
        if not path:
            continue
        if environ.get(name):
            problems.append(Problem(f"{name}_FILE", f"{name} set as well", "one of the two", f"unset {name}"))
            continue
        try:
            values[field] = _read_secret(Path(path))
        except (OSError, ValueError) as error:
            problems.append(_unreadable(f"{name}_FILE", path, error))
    return values, problems


def _read_secret(path: Path) -> str:
    """The secret in a file, without the line end that editors put after it.

    Raises:
        OSError: it can't be read.
        ValueError: it is no file of text, or empty; the message says which.
    """
    if not (path.is_file() or path.is_char_device()):  # a pipe would block the start
        path.stat()  # absent: its own error
        raise ValueError("no file")
    with path.open("rb") as file:
        data = file.read(_SECRET_MAX + 1)  # /dev/zero has no end
    if len(data) > _SECRET_MAX:
        raise ValueError(f"longer than {_SECRET_MAX} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ValueError("not UTF-8 text") from error
    text = text.removesuffix("\n").removesuffix("\r")
    if not text:
        raise ValueError("empty")
    return text


def _unreadable(name: str, path: str, error: Exception) -> Problem:
    reason = (error.strerror or "unreadable") if isinstance(error, OSError) else str(error)
    remedy = (
        f"write the secret into it, or unset {name}" if reason == "empty" else "mount the secret there, or fix the path"
    )
    return Problem(name, f"{path!r} ({reason})", "a readable file that holds the secret alone", remedy)


def _renamed(environ: Mapping[str, str]) -> list[Problem]:
    """Variables of the first compose.yaml, which would be ignored silently: an API without a key, on every address."""
    if COMPOSE_VERSION not in environ:
        return []
    return [
        Problem(old, "set, but nothing reads it", f"{new}, the same name as without compose", f"rename it to {new}")
        for old, new in COMPOSE_RENAMED.items()
        if environ.get(old)
    ]


def _contradiction(environ: Mapping[str, str]) -> list[Problem]:
    """The deprecated DSV4_MODE beside another DSV4_LAYOUT; values that are none of either are reported elsewhere."""
    given = _values(environ)
    mode = str(bare(given.get("mode", ""))).lower()
    try:
        wanted = layout.read(bare(given.get("layout", "")) or layout.AUTO)
    except ValueError:
        return []
    if wanted is None or mode not in ("pd", "single", wanted.kind) or mode == wanted.kind:
        return []
    found = f"{mode}, and DSV4_LAYOUT={wanted}"
    return [Problem("DSV4_MODE", found, "one of the two", "unset DSV4_MODE, which DSV4_LAYOUT replaces")]


def _is_unknown(name: str) -> bool:
    upper = name.upper()
    return upper.startswith(PREFIX) and upper not in names() and upper not in FOREIGN


def _unknown(name: str) -> Problem:
    close = difflib.get_close_matches(name.upper(), names(), n=3, cutoff=0.6)
    close.sort(key=lambda other: sorted(other) != sorted(name.upper()))  # two letters swapped: the likeliest slip
    remedy = f"did you mean {close[0]}?" if close else "remove it"
    return Problem(name, "a name that no setting has", "a setting of docs/env.md", remedy)


def _port_clashes(environ: Mapping[str, str]) -> list[Problem]:
    """Two settings that name the same port; values that are no number are reported elsewhere."""
    first: dict[int, str] = {}
    problems: list[Problem] = []
    for field, info in Settings.model_fields.items():
        if not field.endswith("port"):
            continue
        raw = bare(environ.get(env_name(field), "")) or str(info.default)
        if not raw.isdecimal():
            continue
        other = first.setdefault(int(raw), env_name(field))
        if other != env_name(field):
            problems.append(
                Problem(
                    env_name(field),
                    f"{raw}, which {other} has as well",
                    "a port of its own",
                    f"change {env_name(field)} or {other}",
                )
            )
    return problems


def _problem(item: Any, from_files: frozenset[str]) -> Problem:
    """One pydantic error in our words; a secret's value is never repeated."""
    field = str(item["loc"][0])
    name = env_name(field) + ("_FILE" if field in from_files else "")
    context = item.get("ctx", {})
    expected = {
        "literal_error": f"one of {context.get('expected')}",
        "int_parsing": "a whole number",
        "int_from_float": "a whole number",
        "float_parsing": "a number",
        "greater_than": f"more than {context.get('gt')}",
        "greater_than_equal": f"at least {context.get('ge')}",
        "less_than": f"less than {context.get('lt')}",
        "less_than_equal": f"at most {context.get('le')}",
        "value_error": str(context.get("error")),
    }.get(item["type"], item["msg"])
    default = Settings.model_fields[field].default
    hint = f"set {name}={default}, its default, or unset it" if default else f"fix or unset {name}"
    return Problem(name, _found(item, field), expected, hint)


def _found(item: Any, field: str) -> str:
    if field not in SECRETS:
        return repr(item["input"])
    error = item.get("ctx", {}).get("error")
    return f"a key (hidden) with {error.found}" if isinstance(error, UnusableKey) else "(hidden)"
