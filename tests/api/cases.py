"""Every request of the conformance run, by section: what is sent, what must come back through each router."""

from __future__ import annotations

from api.case import CHAT, LONG, MESSAGES, MODEL, NATIVE, RESPONSES, TEXT, Case, user
from api.rows.chats import CHATS
from api.rows.door import KEYED, OTHERS
from api.rows.messages import MESSAGE_ROWS
from api.rows.natives import NATIVES
from api.rows.responses import RESPONSE_ROWS
from api.rows.texts import TEXTS
from api.rows.tools import TOOLS

__all__ = ["CHAT", "LONG", "MODEL", "NATIVE", "SECTIONS", "TEXT", "Case", "user"]

SECTIONS: dict[str, tuple[Case, ...]] = {
    CHAT: CHATS,
    "Tools of /v1/chat/completions": TOOLS,
    TEXT: TEXTS,
    MESSAGES: MESSAGE_ROWS,
    RESPONSES: RESPONSE_ROWS,
    NATIVE: NATIVES,
    "Other endpoints": OTHERS,
    "The API key": KEYED,
}
