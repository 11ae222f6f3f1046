"""Words by which the guard reads a log, looked up in what writes them: a bump that changes them fails here."""

from __future__ import annotations

from typing import Any

import pytest
from support.signature_sources import ISSUE, ONLY_WITH_CUDA, ROWS, SITE, name, written

pytestmark = pytest.mark.engine


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_the_words_stand_in_what_is_installed(row: dict[str, Any]) -> None:
    """An engine that words its line otherwise must not turn a cause into silence. What needs CUDA's own packages is
    looked up where they are installed.
    """
    for place, words in written(row):
        if ISSUE.fullmatch(place) or (ONLY_WITH_CUDA.match(place) and not (SITE / place).exists()):
            continue
        assert words.encode() in (SITE / place).read_bytes(), f"{place} does not say {words!r}"
