"""Read the settings: the given environment and secret files, every problem reported at once."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dsv4_pd.errors import Problem, SettingsError
from dsv4_pd.settings import deprecated, hub_environ, hub_token, otlp, role
from dsv4_pd.settings.fields import UnusableKey
from dsv4_pd.settings.names_of import PATH_MAX, RUN_PATH_MAX, is_folder_like
from dsv4_pd.settings.schema import (
    COMPOSE_RENAMED,
    COMPOSE_VERSION,
    FOREIGN,
    PREFIX,
    SECRETS,
    Settings,
    env_name,
    names,
    present_names,
)
from dsv4_pd.settings.secret_file import read_secret, unreadable
from dsv4_pd.settings.text import bare, given, placed


def load(environ: Mapping[str, str]) -> Settings:
    """The settings of an environment; names in any case, blank means unset.

    Raises:
        SettingsError: with every problem at once: unknown names, bad values, clashes.
    """
    by_name = given(environ)
    secrets, problems = _read_secret_files(by_name)
    problems += [_unknown(name) for name in sorted(environ) if _is_unknown(name)]
    problems += _renamed(environ) + _old_names(by_name)
    problems += hub_token.problems(environ) + hub_environ.numbers(environ) + otlp.problems(environ)
    settings, wrong = _validated(by_name, secrets)
    problems += wrong + _port_clashes(settings) + _halves(settings, wrong, by_name)
    settings, unplaced = _with_places(settings, environ)
    settings, unsettled = role.settle(settings, by_name)
    problems += unplaced + ([] if wrong else unsettled)
    if problems:
        raise SettingsError(problems)
    return settings.telling({one.old: one.told(_word(one, by_name)) for one in _used(by_name)})


def _validated(by_name: Mapping[str, str], secrets: Mapping[str, Any]) -> tuple[Settings, list[Problem]]:
    """The settings that keep their rules (the others at their defaults), and what is wrong with the others."""
    values: dict[str, Any] = {**_values(by_name), **secrets}
    try:
        return Settings(**values), []
    except ValidationError as error:
        items = {str(item["loc"][0]): item for item in error.errors()}
    problems = [_problem(item, frozenset(secrets), by_name) for item in items.values()]
    return Settings(**{field: value for field, value in values.items() if field not in items}), problems


def _values(by_name: Mapping[str, str]) -> dict[str, str]:
    """Field -> text of its variable. Blank means unset, in quotes as well; a key's blanks are the key's own fault."""
    found = {field: by_name.get(env_name(field), "") for field in Settings.model_fields}
    return {field: text for field, text in found.items() if text and (field in SECRETS or bare(text))}


def _with_places(settings: Settings, environ: Mapping[str, str]) -> tuple[Settings, list[Problem]]:
    """With every path that the operator gave made absolute, so that all programs mean the same place."""
    places: dict[str, Any] = {}
    problems: list[Problem] = []
    for field in sorted(settings.model_fields_set):
        value = getattr(settings, field)
        if not isinstance(value, Path) and not _names_a_place(field, value):
            continue
        try:
            places[field] = type(value)(_short(field, placed(str(value), environ)))
        except ValueError as error:
            problems.append(Problem(env_name(field), repr(str(value)), str(error), "write another path, in full"))
    return settings.model_copy(update=places), problems


def _short(field: str, path: str) -> str:
    """A path that the rule took before it was made absolute.

    Raises:
        ValueError: it is longer than its consumer takes.
    """
    most = RUN_PATH_MAX if field == "run_dir" else PATH_MAX
    if len(path.encode()) > most:
        raise ValueError(f"a path of at most {most} bytes when it is absolute")
    return path


def _names_a_place(field: str, value: Any) -> bool:
    """Whether a text is a path here, and could be something else."""
    return (field == "model" and _is_folder(value)) or (field == "request_log" and value not in ("off", "stdout"))


def _is_folder(model: str) -> bool:
    """What is no name of the Hub, or lies here under that name: the engine takes a folder first, too."""
    return is_folder_like(model) or model.count("/") > 1 or Path(model).is_dir()


def _read_secret_files(by_name: Mapping[str, str]) -> tuple[dict[str, Any], list[Problem]]:
    """(field -> the text of its file, the problems of those that could not be read)."""
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    for field in SECRETS:
        name, path = env_name(field), bare(by_name.get(env_name(field) + "_FILE", ""))
        if not path:
            continue
        if by_name.get(name):
            problems.append(Problem(f"{name}_FILE", f"{name} set as well", "one of the two", f"unset {name}"))
            continue
        try:
            values[field] = read_secret(Path(placed(path, by_name)))
        except (OSError, ValueError) as error:
            problems.append(unreadable(f"{name}_FILE", path, error))
    return values, problems


def secret_of(field: str, by_name: Mapping[str, str]) -> str | None:
    """One secret, from its variable or file, checked; None when it is unset.

    Raises:
        SettingsError: what is wrong with it.
    """
    secrets, problems = _read_secret_files(by_name)
    value = secrets.get(field) or by_name.get(env_name(field))
    if value is not None and not problems:
        try:
            Settings(**{field: value})
        except ValidationError as error:
            problems = [_problem(item, frozenset(secrets), by_name) for item in error.errors()]
    if problems:
        raise SettingsError(problems)
    return value


def _renamed(environ: Mapping[str, str]) -> list[Problem]:
    """Variables of the first compose.yaml, which would be ignored silently: an API without a key, on every address."""
    if COMPOSE_VERSION not in environ:
        return []
    return [
        Problem(old, "set, but nothing reads it", f"{new}, the same name as without compose", f"rename it to {new}")
        for old, new in COMPOSE_RENAMED.items()
        if environ.get(old)
    ]


def _used(by_name: Mapping[str, str]) -> list[deprecated.Renamed]:
    """The old names that say something."""
    return [one for one in deprecated.SETTINGS if bare(by_name.get(one.old, ""))]


def _word(one: deprecated.Renamed, by_name: Mapping[str, str]) -> str | None:
    """What an old name was set to, where it is one of a few words; anything else may hold what no log should."""
    return str(bare(by_name[one.old])) if one.words else None


def _old_names(by_name: Mapping[str, str]) -> list[Problem]:
    """Old names with a text that they never took, or beside another text of the present name."""
    problems: list[Problem] = []
    for one in _used(by_name):
        old, new = bare(by_name[one.old]), bare(by_name.get(one.new, ""))
        if not one.known(old):
            remedy = f"unset {one.old}, which {one.new} replaces"
            problems.append(Problem(one.old, repr(by_name[one.old]), f"one of {', '.join(one.words)}", remedy))
        elif not one.agrees(old.lower(), new.lower()):
            secret = one.new in {env_name(field) for field in SECRETS}
            found = f"{one.new} set to something else" if secret else f"{old}, and {one.new}={new}"
            problems.append(Problem(one.old, found, "one of the two", f"unset {one.old}, which {one.new} replaces"))
    return problems


def _halves(settings: Settings, wrong: Sequence[Problem], by_name: Mapping[str, str]) -> list[Problem]:
    """Settings that mean something only together; one that is wrong itself is named once."""
    pairs = (("tls_cert", "tls_key"), ("tls_key", "tls_cert"), ("api_keys_file", "api_key"))
    named = {problem.subject.removesuffix("_FILE") for problem in wrong}
    return [
        Problem(
            env_name(one), f"{by_name.get(env_name(one))!r}, and {needed} is not set", "both", f"set {needed} as well"
        )
        for one, other in pairs
        for needed in [env_name(other)]
        if getattr(settings, one) is not None and getattr(settings, other) is None and needed not in named
    ]


def _is_unknown(name: str) -> bool:
    """A name of ours that no setting has; invisible characters before it, which editors leave, are part of it."""
    upper = name.upper()
    meant = upper.lstrip("\ufeff\u200b\xa0 \t").removeprefix("EXPORT ").strip()
    return meant.startswith(PREFIX) and upper not in names() and upper not in FOREIGN


def _unknown(name: str) -> Problem:
    close = difflib.get_close_matches(name.upper(), present_names(), n=3, cutoff=0.6)
    close.sort(key=lambda other: sorted(other) != sorted(name.upper()))  # two letters swapped: the likeliest slip
    remedy = f"did you mean {close[0]}?" if close else "remove it"
    shown = name if name.isprintable() else ascii(name)
    return Problem(shown, "a name that no setting has", "a setting of docs/env.md", remedy)


def _port_clashes(settings: Settings) -> list[Problem]:
    """Two settings that name the same port."""
    first: dict[int, str] = {}
    problems: list[Problem] = []
    for field in Settings.model_fields:
        if not field.endswith("port"):
            continue
        port = getattr(settings, field)
        other = first.setdefault(port, env_name(field))
        if other != env_name(field):
            problems.append(
                Problem(
                    env_name(field),
                    f"{port}, which {other} has as well",
                    "a port of its own",
                    f"change {env_name(field)} or {other}",
                )
            )
    return problems


def _problem(item: Any, from_files: frozenset[str], by_name: Mapping[str, str]) -> Problem:
    """One pydantic error in our words; a secret's value is never repeated."""
    field = str(item["loc"][0])
    name = _written(env_name(field) + ("_FILE" if field in from_files else ""), by_name)
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
    return Problem(name, _found(item, field, by_name), expected, hint)


def _written(name: str, by_name: Mapping[str, str]) -> str:
    """The name under which the operator set it: an old one, whose text `given` has put under the present one."""
    old = (one for one in deprecated.old_names(name) if one in by_name and by_name[one] == by_name.get(name))
    return next(old, name)


def _found(item: Any, field: str, by_name: Mapping[str, str]) -> str:
    """The value as it was written; a secret's fault in words that don't show it."""
    if field not in SECRETS:
        return repr(by_name.get(env_name(field), item["input"]))
    error = item.get("ctx", {}).get("error")
    return f"a key (hidden) with {error.found}" if isinstance(error, UnusableKey) else "(hidden)"
