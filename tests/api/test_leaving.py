"""A client that goes away: both servers let its request go within seconds, whenever it went."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from support.appliance import Appliance

from api.case import MODEL, TEXT
from api.client import opened
from api.fronts import ROUTERS, wait_idle

pytestmark = pytest.mark.pair
FREED_S = 10.0  # a second or two on an idle machine: the engine looks for a gone client every few seconds


def body(**fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "prompt": "two plus three", "max_tokens": 3500, "ignore_eos": True, **fields}


def leave(port: int, asked: dict[str, Any], after: float) -> None:
    """Send, wait, go; `after` is also how long an answer may take to begin."""
    try:
        with opened(port, TEXT, asked, bound=after) as answer:
            answer.read(1)
            time.sleep(after)
    except TimeoutError:
        pass


CASES = {
    "in the middle of a stream": (body(stream=True), 1.0),
    "waiting for a whole answer": (body(), 1.0),
    "before the first token": (body(stream=True, prompt="word " * 3500, max_tokens=500), 0.02),
    "with four answers on the way": (body(stream=True, n=4, temperature=1, max_tokens=2000), 1.0),
    "with three prompts on the way": (body(prompt=["a b", "c d", "e f"], max_tokens=2000), 1.0),
}


@pytest.mark.parametrize("router", ROUTERS)
@pytest.mark.parametrize("when", CASES)
def test_both_servers_let_go(appliance: Appliance, fronts: dict[str, int], router: str, when: str) -> None:
    asked, after = CASES[when]
    leave(fronts[router], asked, after)
    wait_idle(appliance, FREED_S)


@pytest.mark.parametrize("router", ROUTERS)
def test_leaving_at_any_moment_leaks_nothing(appliance: Appliance, fronts: dict[str, int], router: str) -> None:
    chance = random.Random(7)
    moments = [chance.uniform(0.005, 0.6) for _ in range(48)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda after: leave(fronts[router], body(stream=chance.random() < 0.5), after), moments))
    wait_idle(appliance, FREED_S)
