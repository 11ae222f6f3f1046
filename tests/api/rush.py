"""Many requests at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from api.case import MODEL, TEXT
from api.client import Answer, send


def rush(port: int, count: int, tokens: int = 200) -> list[Answer]:
    """`count` completions of so many tokens, all sent at the same time."""

    def one(number: int) -> Answer:
        body = {"model": MODEL, "prompt": f"{number} two plus", "max_tokens": tokens, "ignore_eos": True}
        return send(port, TEXT, body, bound=120)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))
