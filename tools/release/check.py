"""Whether a tree may be released as a version: every reason against it at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from packaging.version import Version

from release import changelog, places
from release.compare import breaks_of, unexcused, unused
from release.git import Git
from release.version import parse


class Refused(Exception):
    """No release, for these reasons."""

    def __init__(self, reasons: list[str]) -> None:
        self.reasons = reasons
        super().__init__("\n".join(reasons))


def refusals(root: Path, version: str, promised: Callable[[str], dict[str, Any]]) -> list[str]:
    """What stands against cutting it; empty: nothing."""
    git, present = Git(root), places.current(root)
    found = unclean(git)
    try:
        wanted = parse(version)
    except ValueError as error:
        return [*found, f"VERSION: found {version!r}, expected {error}; VERSION=… beside `make release`"]
    if wanted <= Version(present):
        found.append(f"VERSION: found {version}, expected one after {present}, which {places.DECIDES} has")
    if git.tagged(f"v{version}"):
        found.append(f"git tag: found v{version} already, expected none; a released version is never made again")
    found += _changelog(root, version) + promises(root, version, promised)
    strays = places.strays(root, git.files(), present)
    return found + [f"version: found {stray!r}, expected {present}; see tools/release/places.py" for stray in strays]


def unclean(git: Git) -> list[str]:
    """What is neither committed nor ignored."""
    changed = git.unclean()
    if not changed:
        return []
    return [f"work tree: found {len(changed)} changes ({changed[0].strip()}), expected none; commit them first"]


def _changelog(root: Path, version: str) -> list[str]:
    try:
        changelog.cut((root / "CHANGELOG.md").read_text(encoding="utf-8"), version, "1970-01-01")
    except ValueError as error:
        return [str(error)]
    return []


def promises(root: Path, version: str, promised: Callable[[str], dict[str, Any]]) -> list[str]:
    """What the last release promised and this one would not keep."""
    folder = root / "tests/release/promises"
    lists = {Version(path.stem): path for path in folder.glob("*.json")}
    before = json.loads(lists[max(lists)].read_text(encoding="utf-8"))
    breaks = breaks_of((folder / "breaks.toml").read_text(encoding="utf-8"))
    mine = [one for one in breaks if one.version == version]
    now = promised(version)
    found = [f"promise: {loss}, expected as in {before['version']}; docs/compatibility.md says what may be done"
             for loss in unexcused(before, now, mine, version)]  # fmt: skip
    return found + [
        f"breaks.toml: found {one.name} of {one.version}, expected a loss in {version}; remove or correct it"
        for one in breaks
        if Version(one.version) > Version(before["version"]) and (one in unused(before, now, breaks) or one not in mine)
    ]
