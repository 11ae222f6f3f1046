"""A request that only one server has: it ends after DSV4_LINK_TIMEOUT with words for the client, and is let go.

It stands for a decode that is full as well as for a peer that died: the server that waits can't tell them apart.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from support.appliance import Appliance

from api.case import CHAT, MODEL, NATIVE, user
from api.client import Answer, send
from api.fronts import LINK_TIMEOUT_S, wait_idle

pytestmark = pytest.mark.pair
ROLES = ("DSV4_PREFILL_PORT", "DSV4_DECODE_PORT")
ASKED: dict[str, dict[str, Any]] = {CHAT: {"model": MODEL, "messages": user("hi")}, NATIVE: {"text": "hi"}}


def test_a_server_that_waits_alone_gives_up_in_time_and_says_why(appliance: Appliance) -> None:
    def ask(role: str, path: str, stream: bool, room: int) -> Answer:
        meeting = {"bootstrap_host": "127.0.0.1", "bootstrap_port": appliance.ports["DSV4_BOOTSTRAP_PORT"]}
        return send(appliance.ports[role], path, {**ASKED[path], **meeting, "bootstrap_room": room, "stream": stream})

    kinds = [(role, path, stream) for role in ROLES for path in ASKED for stream in (False, True)]
    with ThreadPoolExecutor(len(kinds)) as pool:
        answers = list(
            pool.map(lambda kind, room: ask(kind[0], kind[1], kind[2], room), kinds, range(1001, 1001 + len(kinds)))
        )
    for kind, answer in zip(kinds, answers, strict=True):
        *_, stream = kind
        assert answer.status == (200 if stream else 503), (kind, answer)
        assert answer.seconds < LINK_TIMEOUT_S + 8, (kind, answer)
        assert "DSV4_LINK_TIMEOUT" in answer.text, (kind, answer)
        assert not stream or '"error"' in answer.text or kind[1] == NATIVE, (kind, answer)
        assert "rid=" not in answer.text, (kind, answer)
    wait_idle(appliance, 5)
