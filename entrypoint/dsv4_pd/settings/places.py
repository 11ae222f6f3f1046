"""Where the operator's paths lead: made absolute once, so that all programs mean the same place."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dsv4_pd.errors import Problem
from dsv4_pd.settings.names_of import PATH_MAX, RUN_PATH_MAX, is_folder_like
from dsv4_pd.settings.schema import Settings, env_name
from dsv4_pd.settings.text import placed


def with_places(settings: Settings, environ: Mapping[str, str]) -> tuple[Settings, list[Problem]]:
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
