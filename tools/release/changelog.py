"""CHANGELOG.md in the format of Keep a Changelog: what is unreleased, and the cut. Pure."""

from __future__ import annotations

import re

_HEAD = re.compile(r"^## \[(.+?)\].*$", re.MULTILINE)
UNRELEASED = "Unreleased"


def section(text: str, name: str) -> str | None:
    """What stands below a version's head, blank lines around it taken off; None: it has no head.

    >>> section("# C\\n\\n## [Unreleased]\\n\\n### Added\\n- a\\n\\n## [0.1.0] - 2026-01-01\\n- b\\n", "Unreleased")
    '### Added\\n- a'
    """
    heads = list(_HEAD.finditer(text))
    for head, following in zip(heads, [*heads, None][1:], strict=True):
        if head[1] == name:
            return text[head.end() : following.start() if following else len(text)].strip()
    return None


def entries(section_text: str) -> list[str]:
    """The lines that say something: neither heads nor blank ones."""
    return [line for line in section_text.splitlines() if line.strip() and not line.startswith("#")]


def cut(text: str, version: str, date: str) -> str:
    """With everything that is unreleased under the version, and nothing unreleased.

    Raises:
        ValueError: nothing is unreleased, or the version is there already.
    """
    found = section(text, UNRELEASED)
    if found is None or not entries(found):
        raise ValueError(f"CHANGELOG.md: found nothing below [{UNRELEASED}], expected what {version} changes")
    if section(text, version) is not None:
        raise ValueError(f"CHANGELOG.md: found [{version}] already, expected it to be new")
    head = next(match for match in _HEAD.finditer(text) if match[1] == UNRELEASED)
    return f"{text[: head.end()]}\n\n## [{version}] - {date}{text[head.end() :]}"
