"""The canary: a real request on a client's way, so that the KV cache crossed the link, and which hop failed."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dsv4_pd.plan.guard.config import GuardConfig, ServerConfig
from dsv4_pd.run import loopback_http
from dsv4_pd.run.guard.ask.probes import Probes
from dsv4_pd.run.guard.decide.states import Answer

BUSY = frozenset({408, 429})  # every slot is taken, or the queue was too slow: queued is not failing
FULL = '"too_many_connections"'  # the front's word where clients hold all of them open


@dataclass(frozen=True, slots=True)
class CanaryResult:
    """How one canary ended. `confirmed`: every program said that it was ready, and still nothing came through."""

    sent: float
    seconds: float
    passed: bool = False
    queued: bool = False
    confirmed: bool = False
    failure: str = ""
    unanswered: bool = False  # nothing came within the bound


async def send(
    config: GuardConfig, probes: Probes, bound: float, servers: Sequence[ServerConfig] | None = None
) -> CanaryResult:
    """Send one canary and wait for at most `bound` seconds. The prompt is fresh, so that no cached prefix can stand in
    for the transfer. `servers`: those that the router may choose from; all of them unless told.
    """
    sent, body, servers = time.monotonic(), _body(config), config.servers if servers is None else servers
    try:
        async with asyncio.timeout(bound):
            got = await probes.ask(f"{config.api_url}/v1/completions", body)
        status, text = got.status_code, got.text
    except TimeoutError:
        status, text = 0, ""
    except loopback_http.FAILURES as error:
        door = "front" if config.front_url else "router"
        return CanaryResult(sent, time.monotonic() - sent, failure=f"{door}: {type(error).__name__}")
    seconds = time.monotonic() - sent
    if status == 200 and came_through(text):
        return CanaryResult(sent, seconds, passed=True)
    if status in BUSY or FULL in text:
        return CanaryResult(sent, seconds, queued=True)
    if unready := await _unready_server(servers, probes) or await _unready_router(config, probes):
        return CanaryResult(sent, seconds, failure=unready)
    failure = _hop(servers, status, text, bound)
    return CanaryResult(sent, seconds, confirmed=True, failure=failure, unanswered=not status)


async def send_to(config: GuardConfig, probes: Probes, route: Sequence[ServerConfig], bound: float) -> CanaryResult:
    """The same past the router, which chooses for itself: to one server, or to a prefill and a decode with the words
    that the router adds, so that this prefill's KV cache crosses to this decode.
    """
    sent, body = time.monotonic(), _body(config)
    if len(route) > 1:
        room = secrets.randbits(62)
        body |= {"bootstrap_host": route[0].host, "bootstrap_port": route[0].bootstrap_port, "bootstrap_room": room}
    tasks = [asyncio.create_task(_post(probes, f"{one.url}/v1/completions", body)) for one in route]
    try:
        async with asyncio.timeout(bound):
            answers = await asyncio.gather(*tasks)
    except TimeoutError:
        answers = [(0, "")]
    finally:
        for task in tasks:
            task.cancel()
    status, text = next((bad for bad in answers if bad[0] != 200), answers[-1])
    seconds = time.monotonic() - sent
    if status == 200 and came_through(text):
        return CanaryResult(sent, seconds, passed=True)
    if status in BUSY:
        return CanaryResult(sent, seconds, queued=True)
    if unready := await _unready_server(route, probes):
        return CanaryResult(sent, seconds, failure=unready)
    failure = _hop(route, status, text, bound)
    return CanaryResult(sent, seconds, confirmed=True, failure=failure, unanswered=not status)


async def _post(probes: Probes, url: str, body: dict[str, Any]) -> tuple[int, str]:
    """Status and body; 503 for a connection that fails: the server's own word about itself is asked for next."""
    try:
        got = await probes.client.post(url, json=body)
    except loopback_http.FAILURES as error:
        return 503, type(error).__name__
    return got.status_code, got.text


def _body(config: GuardConfig) -> dict[str, Any]:
    return {"model": config.model, "prompt": f"canary {secrets.token_hex(8)}", "max_tokens": 2, "temperature": 0}


def came_through(text: str) -> bool:
    """Whether a completion came to a good end; the engine answers an aborted one with 200 as well.

    >>> came_through('{"choices": [{"text": "x", "finish_reason": "length"}]}')
    True
    >>> came_through('{"choices": [{"text": "", "finish_reason": "abort"}]}')
    False
    """
    try:
        return json.loads(text)["choices"][0]["finish_reason"] in ("stop", "length")
    except (ValueError, TypeError, LookupError):
        return False


async def _unready_server(servers: Sequence[ServerConfig], probes: Probes) -> str | None:
    """The server that reports itself not ready."""
    for server in servers:
        answer = await probes.status(f"{server.url}/ready")
        if answer is not Answer.YES:
            return f"{server.name}: /ready {'says no' if answer is Answer.NO else 'does not answer'}"
        if server.bootstrap_url and await probes.status(f"{server.bootstrap_url}/health") is not Answer.YES:
            return f"{server.name}: bootstrap port does not answer"
    return None


async def _unready_router(config: GuardConfig, probes: Probes) -> str | None:
    """What keeps the router from carrying anything."""
    if len(config.routes) > 1:
        answer, why, _ = await probes.listing(config.router_url, config.servers)
    else:
        answer, why = await probes.router(config.router_url, config.servers)
    return None if answer is Answer.YES else f"router: {why}"


def _hop(servers: Sequence[ServerConfig], status: int, text: str, bound: float) -> str:
    """What failed between programs that are all ready, from the answer."""
    for server in servers:
        if f"{server.does}_server_error" in text:
            several = sum(other.does == server.does for other in servers) > 1  # the router does not say which
            return f"{server.does if several else server.name}: answered an error ({status})"
    if status in (400, 401, 403, 404):
        return f"request: refused with {status}"
    what = f"status {status}" if status else f"no answer within {bound:.0f} s"
    if status == 200:
        what = "an answer that did not come to an end"
    first = [server.name for server in servers if server.does == "prefill"]
    last = [server.name for server in servers if server.does != "prefill"]
    path = " to ".join(" or ".join(names) for names in (first, last) if names)
    return f"link from {path}: {what}" if first else f"{path}: {what}"
