"""Slots and queue of the front before both routers of the real pair. What a client gets for a request: cases.py."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from support.appliance import Appliance

from api.case import CHAT, MODEL, user
from api.client import opened, send
from api.fronts import ROUTERS, wait_idle

pytestmark = pytest.mark.pair
LIMIT = 24  # the demo's DSV4_MAX_CONCURRENT_REQUESTS


def chat(**fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": user("Who are you?"), "max_tokens": 60, "temperature": 0, **fields}


@pytest.mark.parametrize("router", ROUTERS)
def test_slots_of_clients_that_left_are_free_at_once(appliance: Appliance, fronts: dict[str, int], router: str) -> None:
    """What was lost at sglang-router: whole answers whose client gave up. As many as are let in, twice over."""
    for stream in (False, True):
        body = chat(max_tokens=1500, ignore_eos=True, stream=stream, messages=user("Tell me a story."))

        def leave(_: int, body: dict[str, Any] = body) -> None:
            try:
                with opened(fronts[router], CHAT, body, bound=2.0) as answer:
                    answer.read(1)
            except TimeoutError:
                pass

        with ThreadPoolExecutor(LIMIT) as pool:
            list(pool.map(leave, range(LIMIT)))
            wait_idle(appliance, 20)
            answers = list(pool.map(lambda _: send(fronts[router], CHAT, chat(max_tokens=4)), range(LIMIT)))
        assert [answer.status for answer in answers] == [200] * LIMIT, [answer.text for answer in answers]


@pytest.mark.parametrize("router", ROUTERS)
def test_a_rush_waits_in_the_fronts_queue(fronts: dict[str, int], router: str) -> None:
    with ThreadPoolExecutor(2 * LIMIT) as pool:
        answers = list(pool.map(lambda _: send(fronts[router], CHAT, chat(max_tokens=4), bound=120), range(2 * LIMIT)))
    assert [answer.status for answer in answers] == [200] * 2 * LIMIT, [
        answer.text for answer in answers if answer.status != 200
    ]
