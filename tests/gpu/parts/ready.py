"""Part `ready`: which kernels are used for the first time after READY, by class of request.

On a machine without caches each of them is a compilation that a client waits for. Run after `serve`, before anything
else is asked. Seconds are those of a real compilation where one took place, otherwise of the load from the cache.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from gpu import client
from gpu.parts.lineup import OURS, STOCK
from gpu.record import Part
from gpu.servers import Server

Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Class:
    """A kind of request: how many at once, tokens of each prompt; `seed` equal to a former one's: a prefix hit."""

    name: str
    count: int
    tokens: int
    seed: int
    fresh: int = 0  # tokens behind the shared beginning
    write: int = 8


CLASSES = (
    Class("short prompt", 1, 20, 1),
    Class("prompt of more than 64 tokens", 1, 130, 2),
    Class("prompt of one chunk", 1, 4000, 3),
    Class("prompt of several chunks", 1, 20000, 4),
    Class("prefix hit", 1, 4000, 3, fresh=300),
    Class("prefix hit, short rest", 1, 4000, 3, fresh=20),
    Class("batch of 8", 8, 200, 5),
    Class("batch of 64", 64, 200, 6, write=48),
    Class("the same again", 64, 300, 7, write=48),
)


KEPT = ("system", "kernel", "specialisation", "seconds", "cached")


def ids(count: int, seed: int) -> list[int]:
    """Token ids without meaning; the same seed begins alike."""
    value, made = seed * 7919 + 1, [1512]
    for _ in range(count - 1):
        value = (value * 1103515245 + 12345) % 2**31
        made.append(5 + value // 65536 % 1480)
    return made


def main() -> int:
    with Part("ready") as part:
        for server in (STOCK, OURS):
            at_start = read(server)
            part.line("start", server=server.name, loads=len(at_start), compiled=sum(not x["cached"] for x in at_start))
            for kind in CLASSES:
                found = asked(server, kind)
                slow = [x for x in found if not x["cached"]]
                part.line("class", server=server.name, name=kind.name, loads=len(found), compiled=len(slow),
                          seconds=round(sum(x["seconds"] for x in found), 2))  # fmt: skip
                for item in found:
                    part.line("load", server=server.name, request=kind.name, **{name: item[name] for name in KEPT})
            manifest(part, server, at_start)
            again(part, server)
    return 0 if not part.failures else 1


def asked(server: Server, kind: Class) -> list[Line]:
    """First uses while this class of request was answered."""
    before = time.time()
    prompts = [
        ids(kind.tokens, kind.seed * 100 + (0 if kind.count == 1 else number))
        + ids(kind.fresh + 1, 999 + kind.fresh)[1:]
        for number in range(kind.count)
    ]
    sampling = {"temperature": 0, "max_new_tokens": kind.write, "ignore_eos": True}
    client.post(f"{server.url}/generate", {"input_ids": prompts, "sampling_params": sampling})
    time.sleep(0.2)
    return [line for line in read(server) if line["time"] >= before]


def read(server: Server) -> list[Line]:
    if not server.loads.exists():
        return []
    return [json.loads(line) for line in server.loads.read_text().splitlines()]


def again(part: Part, server: Server) -> None:
    """The same requests on the now warm server, without its prefix cache: nothing may be compiled."""
    client.call(f"{server.url}/flush_cache", {}, timeout=30)
    compiled = [line["kernel"] for kind in CLASSES for line in asked(server, kind) if not line["cached"]]
    part.expect(not compiled, f"{server.name}: nothing is compiled the second time", compiled=compiled)


def unique(lines: Iterable[Line], key: Callable[[Line], Any]) -> list[Line]:
    """The first line of each key."""
    seen: dict[Any, Line] = {}
    for line in lines:
        seen.setdefault(key(line), line)
    return list(seen.values())


def manifest(part: Part, server: Server, at_start: list[Line]) -> None:
    """How many kernels a start uses, and how many a client's requests then add, by system."""

    def name(line: Line) -> tuple[str, str, str]:
        return line["system"], line["kernel"], line["specialisation"]

    started = {name(line) for line in at_start}
    added = [line for line in unique(read(server), name) if name(line) not in started]
    systems = sorted({line["system"] for line in added})
    part.line("after-ready", server=server.name, at_start=len(started),
              added={system: sum(line["system"] == system for line in added) for system in systems})  # fmt: skip
