"""The canary: a real request through the router, so that the KV cache crossed the link, and which hop failed."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from dataclasses import dataclass

from dsv4_pd.plan.guard_config import GuardConfig
from dsv4_pd.run import loopback_http
from dsv4_pd.run.guard.probes import Probes
from dsv4_pd.run.guard.states import Answer

BUSY = frozenset({408, 429})  # the front's queue is full or was too slow: queued is not failing


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


async def send(config: GuardConfig, probes: Probes, bound: float) -> CanaryResult:
    """Send one canary and wait for at most `bound` seconds. The prompt is fresh, so that no cached prefix can stand in
    for the transfer.
    """
    sent = time.monotonic()
    body = {"model": config.model, "prompt": f"canary {secrets.token_hex(8)}", "max_tokens": 2, "temperature": 0}
    try:
        async with asyncio.timeout(bound):
            got = await probes.client.post(f"{config.router_url}/v1/completions", json=body)
        status, text = got.status_code, got.text
    except TimeoutError:
        status, text = 0, ""
    except loopback_http.FAILURES as error:
        return CanaryResult(sent, time.monotonic() - sent, failure=f"router: {type(error).__name__}")
    seconds = time.monotonic() - sent
    if status == 200 and came_through(text):
        return CanaryResult(sent, seconds, passed=True)
    if status in BUSY:
        return CanaryResult(sent, seconds, queued=True)
    if unready := await _unready_program(config, probes):
        return CanaryResult(sent, seconds, failure=unready)
    return CanaryResult(sent, seconds, confirmed=True, failure=_hop(config, status, text, bound), unanswered=not status)


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


async def _unready_program(config: GuardConfig, probes: Probes) -> str | None:
    """The program that reports itself not ready."""
    for server in config.servers:
        answer = await probes.status(f"{server.url}/ready")
        if answer is not Answer.YES:
            return f"{server.name}: /ready {'says no' if answer is Answer.NO else 'does not answer'}"
        if server.bootstrap_url and await probes.status(f"{server.bootstrap_url}/health") is not Answer.YES:
            return f"{server.name}: bootstrap port does not answer"
    answer, why = await probes.router(config.router_url, config.servers)
    return None if answer is Answer.YES else f"router: {why}"


def _hop(config: GuardConfig, status: int, text: str, bound: float) -> str:
    """What failed between programs that are all ready, from the answer."""
    for server in config.servers:
        if f"{server.name}_server_error" in text:
            return f"{server.name}: answered an error ({status})"
    if status in (400, 401, 403, 404):
        return f"request: refused with {status}"
    what = f"status {status}" if status else f"no answer within {bound:.0f} s"
    if status == 200:
        what = "an answer that did not come to an end"
    path = " to ".join(server.name for server in config.servers)
    return f"link from {path}: {what}" if len(config.servers) > 1 else f"{path}: {what}"
