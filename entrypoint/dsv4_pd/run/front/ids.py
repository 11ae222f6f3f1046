"""The name of one request, in every answer and log line: the client's own where it sent one, else a fresh one."""

from __future__ import annotations

import re
import secrets

HEADER = "x-request-id"
_KEPT = re.compile(r"[A-Za-z0-9._:-]{1,128}")


def of(sent: str | None) -> str:
    """A client's id is kept only where nothing in it could break a log line or a header.

    >>> of("abc-1"), len(of("two words")), of(None).startswith("req_")
    ('abc-1', 28, True)
    """
    return sent if sent and _KEPT.fullmatch(sent) else f"req_{secrets.token_hex(12)}"
