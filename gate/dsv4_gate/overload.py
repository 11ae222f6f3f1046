"""A request that the engine gave up: 503 and a reason, where the engine says 500 and internals, or even 200."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any

from dsv4_gate import budget
from dsv4_gate.answers import plain_words

_TIMED_OUT = re.compile(r"KVTransferError.*timed out after (?P<seconds>[\d.]+)s", re.DOTALL)
_TRANSFER = re.compile(r"(?:bootstrap|handshake|transfer) failed for request", re.IGNORECASE)


def reworded(finish: dict[str, Any]) -> dict[str, Any]:
    """The finish reason of an aborted request, in words for the client; anything else as it came.

    >>> late = {"type": "abort", "message": "KVTransferError(1): timed out after 9.9s", "status_code": 500}
    >>> reworded(late)["message"]
    ... # doctest: +ELLIPSIS
    'the peer server ... within 9.9 s ...'
    """
    message, status = str(finish.get("message") or ""), finish.get("status_code")
    if finish.get("type") != "abort":
        return finish
    if message == budget.WORDS:
        return {**finish, "status_code": HTTPStatus.BAD_REQUEST}
    if status not in (None, HTTPStatus.INTERNAL_SERVER_ERROR):
        return {**finish, "message": plain_words(message)}
    if timed_out := _TIMED_OUT.search(message):
        reason = (
            f"the peer server of the pair did not accept this request within {timed_out['seconds']} s "
            "(DSV4_LINK_TIMEOUT): it is full, or restarting; send it again later"
        )
    elif _TRANSFER.search(message):
        reason = "the link between prefill and decode failed for this request; send it again"
    elif status is None:
        # the engine answers 200 with what there is, so a client that reads the text alone takes it for the whole answer
        reason = "the server ended this request before its answer was whole; send it again"
    else:
        return {**finish, "message": plain_words(message)}
    # the enumeration's member, not its number: a stream shows the error for no other (serving_chat.py)
    return {**finish, "message": reason, "status_code": HTTPStatus.SERVICE_UNAVAILABLE}
