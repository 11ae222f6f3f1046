"""Send one request of every class to a serving appliance, and see what each made it compile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from dsv4_pd.client.api import Api, Reply
from dsv4_pd.client.ops import Ops
from dsv4_pd.errors import ApplianceError
from dsv4_pd.plan.guard.warm_up import RequestClass, classes, words

Text = Callable[[int, int], str]  # (words, seed) -> text without meaning


@dataclass(frozen=True, slots=True)
class Warmed:
    """One class: how long its slowest request took, and what was compiled meanwhile. failure: blank when answered."""

    kind: RequestClass
    seconds: float
    compiled: tuple[str, ...]
    compile_seconds: float
    failure: str = ""


def asked_of(status: Mapping[str, Any]) -> tuple[RequestClass, ...]:
    """The classes for the appliance that says this of itself.

    Raises:
        ApplianceError: it does not say how large it is.
    """
    sizes = (status.get("about") or {}).get("sizes") or {}
    try:
        return classes(int(sizes["chunk"]), int(sizes["context"]), int(sizes["running"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ApplianceError("the appliance does not tell its sizes; this command is of a newer release") from error


def warm(api: Api, ops: Ops, asked: Sequence[RequestClass], text: Text) -> Iterator[Warmed]:
    """One class after the other."""
    before = _compiles(ops)
    for kind in asked:
        replies = _send(api, kind, text)
        after = _compiles(ops)
        fresh = {key: row for key, row in after.items() if row["count"] > before.get(key, {"count": 0})["count"]}
        spent = sum(row["seconds"] - before.get(key, {"seconds": 0.0})["seconds"] for key, row in fresh.items())
        failure = next((reply.error or f"status {reply.status}" for reply in replies if reply.status != 200), "")
        names = tuple(f"{system} {kernel} ({member})" for member, system, kernel in sorted(fresh))
        yield Warmed(kind, max(reply.seconds for reply in replies), names, round(spent, 3), failure)
        before = after


def _send(api: Api, kind: RequestClass, text: Text) -> list[Reply]:
    def one(number: int) -> Reply:
        prompt = " ".join(text(count, seed) for seed, count in words(kind, number))
        ask = api.chat if kind.chat else api.complete
        return ask(prompt, max_tokens=kind.answer_tokens, **kind.options)

    with ThreadPoolExecutor(max_workers=kind.count) as pool:
        return list(pool.map(one, range(kind.count)))


def _compiles(ops: Ops) -> dict[tuple[str, str, str], Mapping[str, Any]]:
    """(member, system, kernel) -> its row in /status, which is a second old at most."""
    rows = (ops.status().get("compiles") or {}).get("kernels") or ()
    return {(row["member"], row["system"], row["kernel"]): row for row in rows}
