"""Every request of the table through both routers of the real pair; `make api` records a run."""

from __future__ import annotations

import os

import pytest
from support.appliance import Appliance

from api.cases import SECTIONS
from api.client import HANGS, Answer, send
from api.fronts import LINK_TIMEOUT_S, ROUTERS, front, wait_idle
from api.page import Verdicts, key, load, store, verdict
from api.rush import rush

pytestmark = pytest.mark.pair
SLOW_S = LINK_TIMEOUT_S - 3.0  # a few tokens, on a loaded machine


def test_every_field_through_both_routers(appliance: Appliance, fronts: dict[str, int]) -> None:
    found: Verdicts = {}
    wrong: list[str] = []
    for section, cases in SECTIONS.items():
        for case in cases:
            row = found.setdefault(key(section, case), {})
            for router in ROUTERS:
                answer = send(fronts[router], case.path, case.body, case.key)
                wrong += _wrong(f"{section} {case.name}, {router}", answer, case.wanted(router))
                try:
                    row[router] = verdict(case, answer)
                except (AssertionError, LookupError, TypeError, ValueError) as error:
                    wrong.append(f"{section} {case.name}, {router}: {error!r} in {answer.text[:300]}")
    assert not wrong, "\n".join(wrong)
    wait_idle(appliance, 10)  # a request that is never let go keeps a slot of decode
    found["overload"] = overload(appliance)
    _record_or_compare(found)


def _wrong(what: str, answer: Answer, wanted: int) -> list[str]:
    if answer.status == HANGS or answer.seconds > SLOW_S:
        return [f"{what}: status {answer.status} after {answer.seconds:.1f} s"]
    if answer.status != wanted:
        return [f"{what}: expected {wanted}, found {answer.status} {answer.text[:200]}"]
    return []


def overload(appliance: Appliance) -> dict[str, str]:
    """A rush on a router that may carry few: the words of its refusals. None may hang, and none admitted may fail."""
    words = {}
    for router in ROUTERS:
        with front(appliance, router, DSV4_MAX_CONCURRENT_REQUESTS="2", DSV4_QUEUE_SIZE="2") as port:
            answers = rush(port, 24)
        refused = [answer for answer in answers if answer.status != 200]
        assert refused and len(refused) < len(answers), [answer.status for answer in answers]
        assert {answer.status for answer in refused} == {429}, [answer.text for answer in refused]
        assert max(answer.seconds for answer in refused) < 2
        sample = refused[-1]
        retry = "`Retry-After`" if "retry-after" in sample.headers else "no `Retry-After`"
        words[router] = f"429, {retry}, {'a reason in the body' if sample.text else 'no body'}"
    return words


def _record_or_compare(found: Verdicts) -> None:
    if os.environ.get("API_RECORD") == "1":
        store(found)
        return
    recorded = load()
    changed = {row: (cells, recorded.get(row)) for row, cells in found.items() if cells != recorded.get(row)}
    assert not changed, f"docs/api.md is stale, run `make api`: {changed}"
