"""A stream that is refused costs nobody else a request, not even seconds later: routers use a connection again."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pytest
from api.case import LONG
from api.cases import MODEL, user
from api.client import Answer, send
from support.appliance import Appliance

pytestmark = [pytest.mark.pair, pytest.mark.slow]
REFUSED: dict[str, Mapping[str, Any]] = {
    "/v1/messages": {"max_tokens": 8, "messages": user(LONG)},
    "/v1/chat/completions": {"messages": user(LONG)},
    "/v1/completions": {"prompt": LONG},
    "/v1/responses": {"input": LONG},
    "/generate": {"text": LONG},
}
LOOKED_S = 2.0  # when the engine looks after a stream that ended


def post(appliance: Appliance, path: str, body: Mapping[str, Any]) -> Answer:
    return send(appliance.ports["DSV4_PORT"], path, {"model": MODEL, **body}, key=None, bound=60)


@pytest.mark.parametrize("path", REFUSED)
def test_the_next_requests_are_served(appliance: Appliance, path: str) -> None:
    post(appliance, path, {**REFUSED[path], "stream": True})
    seen: list[Answer] = []
    end = time.monotonic() + LOOKED_S + 2.0
    while time.monotonic() < end:
        seen.append(post(appliance, "/v1/chat/completions", {"messages": user("Hi"), "max_tokens": 8}))
    assert {answer.status for answer in seen} == {200}, seen
    assert max(answer.seconds for answer in seen) < 8.0, seen
    assert "Exception in ASGI application" not in appliance.log.read_text(errors="replace")
