"""An aborted request in words for the client, made from the engine's own (recorded) messages."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import pytest

HEAD = "request rank=0 decode_req.req.rid='b5be3f' decode_req.req.bootstrap_room=85 with exception"
TIMED_OUT = f"Decode transfer failed for {HEAD} KVTransferError(bootstrap_room=85): Request 85 timed out after 10.0s"
BROKEN = f"Decode handshake failed for {HEAD} KVTransferError(bootstrap_room=85): Could not fetch"


def abort(message: str | None, status: int | None = 500) -> dict[str, Any]:
    return {"type": "abort", "message": message, "status_code": status}


@pytest.mark.parametrize(
    ("message", "words"),
    [(TIMED_OUT, "within 10.0 s (DSV4_LINK_TIMEOUT)"), (BROKEN, "link between prefill and decode")],
)
def test_a_pair_that_did_not_meet_is_a_503_without_internals(message: str, words: str) -> None:
    from dsv4_gate.overload import reworded

    found = reworded(abort(message))
    assert found["status_code"] is HTTPStatus.SERVICE_UNAVAILABLE, "a number would not reach a stream"
    assert words in found["message"]
    assert "rid=" not in found["message"]


@pytest.mark.parametrize(
    "finish",
    [abort("bad regex", 400), abort("full", 503), {"type": "length", "length": 4}, abort("other")],
    ids=str,
)
def test_anything_else_stays_as_it_came(finish: dict[str, Any]) -> None:
    from dsv4_gate.overload import reworded

    assert reworded(dict(finish)) == finish


@pytest.mark.parametrize("message", ["Aborted", "Abort in waiting queue", None])
def test_an_answer_that_was_cut_short_is_no_200(message: str | None) -> None:
    from dsv4_gate.overload import reworded

    found = reworded(abort(message, None))
    assert found["status_code"] is HTTPStatus.SERVICE_UNAVAILABLE
    assert "before its answer was whole" in found["message"]
