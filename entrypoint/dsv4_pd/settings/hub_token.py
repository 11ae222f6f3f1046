"""The Hub's token: huggingface_hub's own variables, and `HF_TOKEN_FILE` for one that `docker inspect` must not show."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dsv4_pd.errors import Problem
from dsv4_pd.settings.secret_file import read_secret, unreadable
from dsv4_pd.settings.text import bare, placed

NAME, FILE = "HF_TOKEN", "HF_TOKEN_FILE"


def problems(environ: Mapping[str, str]) -> list[Problem]:
    """What is wrong with the token as it was given; its value is never part of the words."""
    path, text = bare(environ.get(FILE, "")), bare(environ.get(NAME, ""))
    if path and text:
        return [Problem(FILE, f"{NAME} set as well", "one of the two", f"unset {NAME}")]
    name = FILE if path else NAME
    if path:
        try:
            text = read_secret(Path(placed(path, environ)))
        except (OSError, ValueError) as error:
            return [unreadable(FILE, path, error)]
    # The library strips blanks and line ends around the variable, and so do we; and quotes of `docker run --env-file`.
    if text.strip() and any(not "!" <= character <= "~" for character in text.strip()):
        found = "a token (hidden) with a blank, a line break or a character beyond ASCII inside"
        return [Problem(name, found, "the token alone, as hf_...", f"write the token alone into {name}")]
    return []


def token(environ: Mapping[str, str]) -> str | None:
    """The token of the two variables; None: the library looks where `hf auth login` keeps one.

    Raises:
        OSError, ValueError: the file can't be read; `problems` says so beforehand.
    """
    if path := bare(environ.get(FILE, "")):
        return read_secret(Path(placed(path, environ))).strip()
    return str(bare(environ.get(NAME, ""))) or None
