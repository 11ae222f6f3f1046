"""The page in docs/ is the one that the recorded verdicts make."""

from __future__ import annotations

from api.cases import SECTIONS
from api.page import PAGE, key, load, render


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(load()), "run `make api`"


def test_nothing_recorded_hangs_or_fails_inside() -> None:
    for row, cells in load().items():
        for router, words in cells.items():
            assert "hangs" not in words, (row, router)
            assert not words.startswith("500"), (row, router)


def test_every_case_has_a_row_of_its_own() -> None:
    rows = [key(section, case) for section, cases in SECTIONS.items() for case in cases]
    assert len(rows) == len(set(rows))
    assert set(rows) | {"overload"} == set(load())
