"""Faults that clients make: everything that one of them can send to the API or the ops port."""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import resource
import socket
import time
import tomllib
from pathlib import Path
from typing import Any

from support.appliance import Appliance

ROOT = Path(__file__).resolve().parents[2]
HOSTILE_PATTERN = "((((a|b|c|d|[^~])*)*)*)*~~$"


def send(appliance: Appliance, path: str, body: dict[str, Any], wait_s: float = 30.0) -> str:
    """The status of one request, or how it failed."""
    connection = http.client.HTTPConnection("127.0.0.1", appliance.ports["DSV4_PORT"], timeout=wait_s)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        return str(connection.getresponse().status)
    except (OSError, http.client.HTTPException) as error:
        return type(error).__name__
    finally:
        connection.close()


def signatures() -> list[str]:
    """Lines that would end or restart a server if the server itself wrote them."""
    table = tomllib.loads((ROOT / "config/signatures.toml").read_text(encoding="utf-8"))
    return [row["text"] for row in table["fatal"] if "text" in row]


def inject_log(appliance: Appliance, choose: random.Random) -> str:
    """Fatal lines in request fields that the engine or the router may log, dressed as records of their own."""
    lines, seen = signatures(), set[str]()
    for _ in range(40):
        line = choose.choice(lines)
        prefix = choose.choice(("", "[2026-11-30 05:27:16 TP0] ", "[2026-11-30 05:27:16] "))
        mark = choose.choice(("\n", "\r\n", "\r", "\u2028", "\x85", "\x0b"))
        text = f"x{mark}{prefix}{line}{mark}y"
        path, body = choose.choice((
            ("/generate", {"text": "hi", "sampling_params": {"max_new_tokens": 2}, "lora_path": text}),
            ("/v1/completions", {"model": text, "prompt": "hi", "max_tokens": 2}),
            ("/v1/chat/completions", {"model": "dsv4-demo", "messages": [{"role": text, "content": "hi"}]}),
            ("/v1/completions", {"model": "dsv4-demo", "prompt": text, "max_tokens": 2, "user": text, "rid": text}),
        ))  # fmt: skip
        seen.add(send(appliance, path, body))
    return f"fatal lines in 40 requests ({', '.join(sorted(seen))})"


def huge_prompt(appliance: Appliance, choose: random.Random) -> str:
    """A prompt of 20 MB."""
    begun = time.monotonic()
    status = send(appliance, "/v1/completions", {"model": "dsv4-demo", "prompt": "the quick brown fox " * 1_000_000,
                                                 "max_tokens": 2}, 120)  # fmt: skip
    return f"a prompt of 20 MB: {status} after {time.monotonic() - begun:.1f} s"


def hostile_pattern(appliance: Appliance, choose: random.Random) -> str:
    """A stop expression that no backtracking matcher finishes."""
    begun = time.monotonic()
    body = {"model": "dsv4-demo", "prompt": "Tell me a story", "max_tokens": 60, "stop_regex": HOSTILE_PATTERN}
    status = send(appliance, "/v1/completions", body, 120)
    return f"hostile stop_regex: {status} after {time.monotonic() - begun:.1f} s"


def flood_connections(appliance: Appliance, choose: random.Random) -> str:
    """1,100 idle connections to the ops port or the API for some seconds."""
    name, seconds = choose.choice(("DSV4_OPS_PORT", "DSV4_PORT")), choose.uniform(4, 8)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    held: list[socket.socket] = []
    try:
        for _ in range(1100):
            with contextlib.suppress(OSError):
                held.append(socket.create_connection(("127.0.0.1", appliance.ports[name]), 0.5))
        time.sleep(seconds)
    finally:
        for each in held:
            each.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return f"{len(held)} idle connections to {name} for {seconds:.0f} s"


def exhaust_guard(appliance: Appliance, choose: random.Random) -> str:
    """The guard may open nothing more for some seconds."""
    return _exhaust(appliance, choose, "guard")


def exhaust_router(appliance: Appliance, choose: random.Random) -> str:
    """The router may open nothing more for some seconds."""
    return _exhaust(appliance, choose, "router")


def exhaust_front(appliance: Appliance, choose: random.Random) -> str:
    """The front may open nothing more for some seconds: it takes no client in, and reaches no router."""
    return _exhaust(appliance, choose, "front")


def _exhaust(appliance: Appliance, choose: random.Random, name: str) -> str:
    from chaos.faults import pid_of

    pid, seconds = pid_of(appliance, name), choose.uniform(3, 8)
    if not pid:
        return f"no descriptors left for {name}: it was not there"
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):
        soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        used = max(int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir())
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + 1, hard))
        time.sleep(seconds)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
    return f"no descriptors left for {name} for {seconds:.0f} s"
