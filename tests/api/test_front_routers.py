"""Every request that the front rewrites, through both real routers: they must take it. The servers are stand-ins.

What the engine makes of it, test_front.py asks the real pair.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from dsv4_pd.run.front import dialects
from dsv4_pd.run.front.dialects.base import Facts
from front.test_dialects import BASES, MESSAGES, REQUESTS, RESPONSES

from api.administration import Router, Worker, router
from api.fronts import ROUTERS

pytestmark = pytest.mark.pair


@pytest.fixture(scope="module", params=ROUTERS)
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Router, Worker]]:
    kind: str = request.param
    with Worker("prefill") as prefill, Worker("decode") as decode:
        with router(tmp_path_factory.mktemp(kind), kind, (prefill, decode), None) as one:
            yield kind, one, prefill


@pytest.mark.parametrize("name", REQUESTS)
def test_the_router_takes_what_the_front_sends(running: tuple[str, Router, Worker], name: str) -> None:
    kind, one, worker = running
    path, sent, _ = REQUESTS[name]
    if kind != "smg" and path in (MESSAGES, RESPONSES):
        pytest.skip("sglang-router has no such route")
    body = dialects.prepare(path, {**BASES[path], "model": "stub", **sent}, Facts("stub", "smg", None, 1)).body
    before = worker.prompts()
    answer = one.call("POST", path, json.loads(json.dumps(body)))
    assert worker.prompts() == before + 1, f"{answer.status_code}: {answer.text[:500]}"


def test_a_field_that_smg_learns_may_be_passed_on(running: tuple[str, Router, Worker]) -> None:
    """The list of known fields is the router's own, which it tells when it refuses one."""
    from dsv4_pd.run.front.dialects.responses import KNOWN

    kind, one, _ = running
    if kind != "smg":
        pytest.skip("sglang-router has no such route")
    answer: Any = one.call("POST", "/v1/responses", {"model": "stub", "input": "x", "nosuch": 1}).json()
    told = answer["error"]["message"].split("expected one of")[1].split(" at line")[0]
    assert {name.strip(" `") for name in told.split(",")} == KNOWN
