"""What an environment says, before any rule: names in any case, blanks, quotes that env files keep, places.

Imports nothing large: the health probe, which must be cheap, reads its setting through this too.
"""

from __future__ import annotations

import os
import pwd
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dsv4_pd.settings import deprecated

_BREAKS = "\n\r\0\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"


def given(environ: Mapping[str, str]) -> dict[str, str]:
    """Variable in upper case -> its text, blank ones left out; an exact name wins over one in another case. What is set
    under a setting's old name stands under the present one as well.

    >>> given({"dsv4_port": "1", "DSV4_PORT": "2", "A": ""})
    {'DSV4_PORT': '2'}
    >>> given({"DSV4_MODE": "single", "DSV4_LAYOUT": "auto"})
    {'DSV4_MODE': 'single', 'DSV4_LAYOUT': 'single'}
    """
    found = {name.upper(): value for name, value in sorted(environ.items(), reverse=True) if value}
    return found | {
        one.new: found[one.old]
        for one in deprecated.SETTINGS
        if one.known(text := bare(found.get(one.old, ""))) and text and decides_nothing(found.get(one.new, ""))
    }


def decides_nothing(text: str) -> bool:
    """Whether a setting's text leaves it open."""
    return bare(text).lower() in ("", "auto")


def bare(value: Any) -> Any:
    """Without blanks and pairs of quotes around it: `docker run --env-file` keeps quotes that compose strips.

    >>> bare(' "8000" '), bare("'\\"a\\"'"), bare('"')
    ('8000', 'a', '"')
    """
    if not isinstance(value, str):
        return value
    text = value.strip()
    while len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1].strip()
    return text


def printable(text: str) -> str:
    """Text on one line that every file, log and header can carry.

    Raises:
        ValueError: a line break, another control or invisible character, or bytes that are no UTF-8.
    """
    if any(mark in text for mark in _BREAKS):
        raise ValueError("text without a line break")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("text in UTF-8")
    if not text.isprintable():
        raise ValueError("text without control or invisible characters (a byte order mark is one)")
    return text


def placed(path: str, environ: Mapping[str, str], folder: str | None = None) -> str:
    """An absolute path: `~` is expanded as a shell does, a relative one starts at the working directory.

    >>> placed("~/m", {"HOME": "/home/a"}), placed("m/", {}, "/srv"), placed("/x//y/", {})
    ('/home/a/m', '/srv/m', '/x/y')

    Raises:
        ValueError: `~NAME` for a user who is not there.
    """
    if path.startswith("~"):
        name, slash, rest = path[1:].partition("/")
        path = _home(name, environ) + slash + rest
    if not path.startswith("/"):
        path = f"{folder or Path.cwd()}/{path}"
    # Dots stay: behind a link, ".." is not what it looks like.
    return "/" + "/".join(part for part in path.split("/") if part not in ("", "."))


def split_args(text: str) -> tuple[str, ...]:
    """Extra arguments as shell words; the settings have checked that they split."""
    return tuple(shlex.split(text))


def _home(name: str, environ: Mapping[str, str]) -> str:
    if not name and environ.get("HOME"):
        return environ["HOME"]
    try:
        return (pwd.getpwnam(name) if name else pwd.getpwuid(os.getuid())).pw_dir
    except KeyError as error:
        raise ValueError(f"a path whose ~{name} is known here") from error
