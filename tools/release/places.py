"""Where the version stands. One place decides, entrypoint/pyproject.toml; at a release the others follow."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

DECIDES = "entrypoint/pyproject.toml"
_FIELD = r'^version = "()"$'
_MODULE = r'^__version__ = "()"$'
_NAMED = r"dsv4-pd[:@ -]()(?![\w.]*\d)"
# file -> what stands around the version there; each is found at least once
PLACES: Mapping[str, str] = {
    DECIDES: _FIELD,
    # What is built from one tree and released together has one version.
    "hooks/pyproject.toml": _FIELD,
    "gate/pyproject.toml": _FIELD,
    "kernels/pyproject.toml": _FIELD,
    "demo/plugin/pyproject.toml": _FIELD,
    "entrypoint/dsv4_pd/__init__.py": _MODULE,
    "kernels/dsv4_kernels/__init__.py": _MODULE,
    "compose.yaml": _NAMED,
    "config/quadlet/dsv4-pd.container": _NAMED,
    "docker/compose.env": _NAMED,
    ".env.example": _NAMED,
    "make/image.mk": _NAMED,
    "docs/image.md": _NAMED,
    "docs/new-host.md": _NAMED,
    "docs/podman.md": _NAMED,
    "docs/verify.md": _NAMED,
}
# They name the version of something else: the past, a test's own, a stand-in.
EXEMPT = ("CHANGELOG.md", "docs/releases/", "tests/", "tools/release/", "demo/standins/", "docs/releasing.md")
ANY = r"\d+\.\d+\.\d+(?:-rc\.\d+)?"


def current(root: Path) -> str:
    """The version of a tree."""
    return current_of(_read(root, DECIDES))


def current_of(text: str) -> str:
    """The version in the text of the file that decides.

    Raises:
        ValueError: it has none.
    """
    found = re.search(_FIELD.replace("()", f"({ANY})"), text, re.MULTILINE)
    if not found:
        raise ValueError(f'{DECIDES}: found no line version = "…", expected one')
    return found[1]


def renamed(root: Path, old: str, new: str) -> dict[str, str]:
    """File -> its text with the new version.

    Raises:
        ValueError: files that don't have the old one.
    """
    texts: dict[str, str] = {}
    missing = []
    for name, around in PLACES.items():
        before, after = around.split("()")
        pattern = f"({before}){re.escape(old)}(?={after})" if after else f"({before}){re.escape(old)}"
        texts[name], count = re.subn(pattern, rf"\g<1>{new}", _read(root, name), flags=re.MULTILINE)
        missing += [] if count else [name]
    if missing:
        raise ValueError(f"{', '.join(missing)}: found no {old}, expected it; see tools/release/places.py")
    return texts


def strays(root: Path, names: list[str], version: str) -> list[str]:
    """`file: what it says` for each file that names another version of ours."""
    named = re.compile(rf"(?:dsv4-pd[:@ -]|^version = \"|^__version__ = \")({ANY})(?![\w.]*\d)", re.MULTILINE)
    return [
        f"{name}: {found[0]}"
        for name in names
        if not name.startswith(EXEMPT) and not name.endswith(".lock")
        for found in named.finditer(_text(root, name))
        if found[1] != version
    ]


def _text(root: Path, name: str) -> str:
    """Blank for what is no text."""
    try:
        return _read(root, name)
    except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
        return ""


def _read(root: Path, name: str) -> str:
    return (root / name).read_text(encoding="utf-8")
