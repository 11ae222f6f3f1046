"""A request that the server gives up half-way: an error on every way to it, never a 200 that looks whole."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from support.appliance import Appliance

from api.case import CHAT, MODEL, NATIVE, TEXT
from api.client import Answer, send
from api.fronts import ROUTERS, in_flight, wait_idle

pytestmark = pytest.mark.pair
BODIES: dict[str, dict[str, Any]] = {
    TEXT: {"model": MODEL, "prompt": "two plus three"},
    CHAT: {"model": MODEL, "messages": [{"role": "user", "content": "two plus three"}]},
    NATIVE: {"text": "two plus three"},
}


def end_all(appliance: Appliance) -> None:
    """The engine's own way to end every request; it answers 200 where that goes well."""
    deadline = time.monotonic() + 20
    while not in_flight(appliance)["decode"]:
        assert time.monotonic() < deadline, "decode never held the request"
        time.sleep(0.05)
    assert send(appliance.ports["DSV4_DECODE_PORT"], "/abort_request", {"abort_all": True}).status == 200


def ended(appliance: Appliance, port: int, path: str, *, stream: bool) -> Answer:
    sampling: dict[str, Any] = {"max_tokens": 3500, "ignore_eos": True}
    if path == NATIVE:
        sampling = {"sampling_params": {"max_new_tokens": 3500, "ignore_eos": True}}
    wait_idle(appliance, 20)  # the guard's canary must not be what end_all() sees
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(send, port, path, BODIES[path] | sampling | {"stream": stream})
        time.sleep(0.5)
        end_all(appliance)
        return asked.result()


@pytest.mark.parametrize("router", ROUTERS)
@pytest.mark.parametrize("path", BODIES)
def test_a_whole_answer_becomes_a_503(appliance: Appliance, fronts: dict[str, int], router: str, path: str) -> None:
    answer = ended(appliance, fronts[router], path, stream=False)
    assert answer.status == 503, answer
    assert "before its answer was whole" in answer.text


@pytest.mark.parametrize("router", ROUTERS)
@pytest.mark.parametrize("path", BODIES)
def test_a_stream_says_that_it_broke_off(appliance: Appliance, fronts: dict[str, int], router: str, path: str) -> None:
    answer = ended(appliance, fronts[router], path, stream=True)
    assert "before its answer was whole" in answer.text, answer.text[-600:]
    assert '"finish_reason":"stop"' not in answer.text.replace(" ", "")
