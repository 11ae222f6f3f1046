"""What an error's answer may say: the reason, not the engine's files and frames."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

MOST_WORDS = 2000  # characters of one message; pydantic repeats the whole input of a field otherwise
_TRACE = re.compile(r"\s*Traceback \(most recent call last\):.*", re.DOTALL)
_FRAME = re.compile(r'\s*File "[^"\n]*", line \d+(?:, in [^\n]*)?(?:\n\s+[^\n]*)?')
# an absolute path with a source file at its end, and the position that a compiler puts after it
_SOURCE = re.compile(r"(?:\[\d\d:\d\d:\d\d\] )?(?:/[\w.+-]+)+\.(?:py|pyi|pyx|so|cc|cpp|cu|cuh|h|rs)\b(?::\d+)*:? ?")
_MODULE = re.compile(
    r"\b(?:sglang|dsv4_gate|xgrammar|pydantic(?:_core)?|fastapi|starlette|transformers)(?:\.\w+)+\b:? ?"
)
_FIELD = re.compile(r"(?!(?:str|int|float|bool|none|dict|list|tuple)$)[a-z_$][a-z0-9_$]{0,60}")
_OBJECT = re.compile(r"<[\w.]+ object at 0x[0-9a-f]+>")


def plain_words(message: str) -> str:
    """The message without traces, frames, source files and modules.

    >>> plain_words('1 validation error: {} File "/opt/engine/http_server.py", line 930, in generate_request')
    '1 validation error: {}'
    >>> plain_words("[07:39:27] /project/cpp/x.cc:83: Lookahead is not supported yet.")
    'Lookahead is not supported yet.'
    """
    for inner in (_TRACE, _FRAME, _OBJECT, _SOURCE, _MODULE):
        message = inner.sub("", message)
    message = message.strip()
    return message if len(message) <= MOST_WORDS else message[:MOST_WORDS].rstrip() + " ..."


def validation_words(errors: list[dict[str, Any]]) -> str:
    """Pydantic's errors as `where: what`, each once; no input is repeated.

    >>> validation_words([{"loc": ("body", "n"), "msg": "Input should be a valid integer", "input": "x"}])
    'n: Input should be a valid integer'
    """
    seen: dict[str, None] = {}
    for error in errors[:20]:
        if "instance" not in str(error.get("type", "")):  # the engine's own classes, beside what JSON may hold
            place = _place(error.get("loc", ()))
            seen.setdefault(f"{place}: {error.get('msg', '')}" if place else str(error.get("msg", "")))
    return plain_words("; ".join(seen)) or "the request is not valid"


def _place(parts: Iterable[Any]) -> str:
    """Names and numbers of fields; which of the engine's types was tried is its own business.

    >>> _place(("body", "messages", 0, "function-after[check(), Param]", "role")), _place(("body", 1))
    ('messages.0.role', '')
    """
    named = [part for part in parts if part != "body" and (isinstance(part, int) or _FIELD.fullmatch(str(part)))]
    return ".".join(map(str, named)) if any(isinstance(part, str) for part in named) else ""
