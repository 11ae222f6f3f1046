"""The page in docs/ is the one that the recorded verdicts make."""

from __future__ import annotations

from dsv4_pd.run.front import routes

from api import forms
from api.case import Case
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
    assert set(rows) | {"overload", "form"} == set(load())


def test_every_route_has_a_row() -> None:
    """Only the routes of this page exist: each one that does is sent."""
    sent = {(case.method or ("GET" if case.body is None else "POST"), _route(case.path)) for case in every_case()}
    assert {(route.method, route.path) for route in routes.ROUTES} <= sent
    assert ("GET", "/v1/models/{id}") in sent


def _route(path: str) -> str:
    path = path.split("?", maxsplit=1)[0]
    return "/v1/models/{id}" if path.startswith("/v1/models/") else path


def every_case() -> list[Case]:
    return [case for cases in SECTIONS.values() for case in cases]


def test_departures_from_the_schema_are_explained() -> None:
    assert load()["form"] == forms.KNOWN
