"""The table of attacks in docs/testing.md names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
PAGE = (TESTS.parent / "docs/testing.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## Attacks and faults")[2].partition("\n## ")[0]
NAMED = sorted(set(re.findall(r"`([\w/]+\.py(?:::\w+)?)`", SECTION)))


def test_every_row_names_one() -> None:
    rows = [line for line in SECTION.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 25 and not [row for row in rows if not re.search(r"`[\w/]+\.py", row)]


@pytest.mark.parametrize("name", NAMED)
def test_it_is_there(name: str) -> None:
    file, _, function = name.partition("::")
    text = (TESTS / file).read_text(encoding="utf-8")
    assert not function or f"def {function}(" in text
