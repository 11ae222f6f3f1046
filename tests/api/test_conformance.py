"""Every request of the table through both routers of the real pair; `make api` records a run."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from support.appliance import Appliance

from api import forms
from api.case import Case
from api.cases import SECTIONS
from api.client import HANGS, Answer, send
from api.fronts import LINK_TIMEOUT_S, ROUTERS, front, wait_idle
from api.page import Verdicts, key, load, store, verdict
from api.rush import rush

pytestmark = pytest.mark.pair
ASKED = tuple(router for router in ROUTERS if os.environ.get("TEST_ROUTER", "") in ("", router))
RECORD = os.environ.get("API_RECORD") == "1"
SLOW_S = LINK_TIMEOUT_S - 3.0  # a few tokens, on a loaded machine


def test_every_field_through_both_routers(appliance: Appliance, fronts: dict[str, int]) -> None:
    """Or through the one that TEST_ROUTER names, against its column alone."""
    assert not RECORD or ASKED == ROUTERS, "TEST_ROUTER: a run through one router is no page, leave it unset"
    found: Verdicts = {}
    wrong: list[str] = []
    departed: set[str] = set()
    with ThreadPoolExecutor(len(ASKED)) as both:
        for section, case in ((section, case) for section, cases in SECTIONS.items() for case in cases):
            ask = partial(_asked, fronts, f"{section} {case.name}", case, wrong, departed)
            found[key(section, case)] = dict(zip(ASKED, both.map(ask, ASKED), strict=True))
    wait_idle(appliance, 10)  # a request that is never let go keeps a slot of decode
    found["overload"] = overload(appliance, wrong)
    if ASKED == ROUTERS:
        found["form"] = {place: forms.KNOWN[place] for place in sorted(departed)}
        gone = forms.KNOWN.keys() - departed
        wrong += [f"{place} is as the schema has it: take it out of forms.KNOWN" for place in sorted(gone)]
    if RECORD:
        store(found)  # also what is wrong: the difference shows it
    assert not wrong, "\n".join(wrong)
    _compare(found)


def _asked(fronts: dict[str, int], name: str, case: Case, wrong: list[str], departed: set[str], router: str) -> str:
    """One cell of the table; whatever is wrong with the answer is added to `wrong`."""
    what = f"{name}, {router}"
    answer = send(fronts[router], case.path, case.body, case.key, header=case.header, method=case.method)
    wrong += _wrong(what, answer, case.wanted(router)) + _misformed(what, case, answer, departed)
    try:
        return verdict(case, answer)
    except (AssertionError, LookupError, TypeError, ValueError) as error:
        wrong.append(f"{what}: {error!r} in {answer.text[:300]}")
        return "**wrong**"


def _wrong(what: str, answer: Answer, wanted: int) -> list[str]:
    if answer.status == HANGS or answer.seconds > SLOW_S:
        return [f"{what}: status {answer.status} after {answer.seconds:.1f} s"]
    if answer.status != wanted:
        return [f"{what}: expected {wanted}, found {answer.status} {answer.text[:200]}"]
    return []


def _misformed(what: str, case: Case, answer: Answer, departed: set[str]) -> list[str]:
    """What is wrong with an answer's form; departures that are known are collected."""
    if answer.status == HANGS:
        return []
    try:
        faults = forms.faults(case, answer)
    except (AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
        return [f"{what}: its form can't be read, {error!r} in {answer.text[:300]}"]
    departed |= {forms.place(fault) for fault in faults} & forms.KNOWN.keys()
    return [f"{what}: {fault}" for fault in faults if forms.place(fault) not in forms.KNOWN]


def overload(appliance: Appliance, wrong: list[str]) -> dict[str, str]:
    """A rush on a front that may let in few: the words of its refusals. None may hang, and none admitted may fail."""
    words = {}
    for router in ASKED:
        with front(appliance, router, DSV4_MAX_CONCURRENT_REQUESTS="2", DSV4_QUEUE_SIZE="2") as port:
            answers = rush(port, 24)
        refused = [answer for answer in answers if answer.status != 200]
        seen = {answer.status for answer in refused}
        if seen != {429} or len(refused) == len(answers):
            wrong.append(f"a rush, {router}: {[answer.status for answer in answers]}")
        wrong += [f"a rush, {router}: refused after {one.seconds:.1f} s" for one in refused if one.seconds > SLOW_S]
        sample = next((answer for answer in refused if answer.status == 429), refused[-1])
        retry = "`Retry-After`" if "retry-after" in sample.headers else "no `Retry-After`"
        words[router] = f"429, {retry}, {'a reason in the body' if sample.text else 'no body'}"
    return words


def _compare(found: Verdicts) -> None:
    recorded = load()
    differing = [row for row, cells in found.items() if not _same(cells, recorded.get(row, {}))]
    changed = {row: (found[row], recorded.get(row)) for row in differing}
    assert not changed, f"docs/api.md is stale, run `make api`: {changed}"


def _same(cells: dict[str, str], recorded: dict[str, str]) -> bool:
    """The columns that were asked for; all of them, where both were."""
    return cells == recorded if ASKED == ROUTERS else cells.items() <= recorded.items()
