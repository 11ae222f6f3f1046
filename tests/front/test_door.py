"""Who is let in, and when: keys, origins, the truth about the appliance."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from front.conftest import CHAT, HELLO, Door, chunk, door

MESSAGES = {**HELLO, "max_tokens": 4}
USAGE = b'{"usage":{"input_tokens":12,"output_tokens":0}}'
BEGUN = b'event: message_start\ndata: {"type":"message_start","message":%b}\n\n' % USAGE
DELTA = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{}}\n\n'
KEYS = '[alice]\nkey = "a-secret"\n[bob]\nkey = "b-secret"\nrequests_per_minute = 2\n'


def health(folder: Path, state: str, reason: str = "why", **fields: Any) -> Path:
    path = folder / "health.json"
    path.write_text(json.dumps({"state": state, "reason": reason, "heartbeat_monotonic": time.monotonic(), **fields}))
    return path


async def test_keys(tmp_path: Path) -> None:
    (tmp_path / "keys.toml").write_text(KEYS)
    async with door(keys_file=str(tmp_path / "keys.toml")) as d:
        for headers in (
            {"Authorization": "Bearer a-secret"},
            {"authorization": "bEARER a-secret"},
            {"x-api-key": "a-secret"},
        ):
            assert (await d.post(**headers))[0] == 200, headers
        for headers in ({}, {"Authorization": "Bearer c"}, {"Authorization": "Basic a-secret"}, {"x-api-key": "é"}):
            status, body, got = await d.post(**headers)
            assert (status, body["error"]["code"], got["www-authenticate"]) == (401, "invalid_api_key", "Bearer")
        status, body, _ = await d.post("/v1/messages", MESSAGES)
        assert (status, body["error"]["type"]) == (401, "authentication_error")
        assert (await d.get("/v1/models"))[0] == 401
        assert [(await d.get(path))[0] for path in ("/health", "/readyz", "/livez")] == [200] * 3
        assert "a-secret" not in str([headers for _, headers, _ in d.router.heard])
    assert "Authorization" not in d.router.heard[0][1]


async def test_the_routers_own_key_is_the_fronts(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("inner\n")
    async with door(upstream_key_file=str(tmp_path / "key")) as d:
        await d.post(Authorization="Bearer a-clients")
        assert d.router.heard[0][1]["Authorization"] == "Bearer inner"


async def test_one_key_over_its_limit(tmp_path: Path) -> None:
    (tmp_path / "keys.toml").write_text(KEYS)
    async with door(keys_file=str(tmp_path / "keys.toml")) as d:
        bob, alice = {"x-api-key": "b-secret"}, {"x-api-key": "a-secret"}
        assert [(await d.post(**bob))[0] for _ in range(2)] == [200, 200]
        status, body, headers = await d.post(**bob)
        assert (status, body["error"]["type"]) == (429, "rate_limit_error")
        assert 1 <= int(headers["retry-after"]) <= 30
        assert "'bob'" in body["error"]["message"]
        assert (await d.post(**alice))[0] == 200


async def held(d: Door, body: Any, key: str) -> asyncio.Task[Any]:
    """A request that the router has not answered yet, or whose stream has begun."""
    before = d.router.running
    task = asyncio.create_task(d.post(body=body, **{"x-api-key": key}))
    await d.until(lambda: d.router.running > before)
    return task


async def test_a_key_has_answers_and_not_requests(tmp_path: Path) -> None:
    async def never(request: web.BaseRequest, raw: bytes) -> web.StreamResponse:
        await asyncio.sleep(600)
        return web.Response()

    (tmp_path / "keys.toml").write_text('[one]\nkey = "1"\nconcurrent = 1\n[four]\nkey = "4"\nconcurrent = 4\n')
    async with door(never, keys_file=str(tmp_path / "keys.toml")) as d:
        status, body, _ = await d.post(body={**HELLO, "n": 16}, **{"x-api-key": "1"})
        assert (status, body["error"]["code"]) == (400, "too_many_answers")
        task = await held(d, {**HELLO, "n": 3}, "4")
        status, body, headers = await d.post(body={**HELLO, "n": 2}, **{"x-api-key": "4"})
        assert (status, headers["retry-after"]) == (429, "1")
        assert "3 answers" in body["error"]["message"]
        assert d.front.service.admission.used == 3
        task.cancel()
        await d.until(lambda: d.front.service.limits.uses["four"].running == 0)


@pytest.mark.parametrize(
    ("path", "events", "spent"),
    [
        (CHAT, [chunk("a")] * 20, 20),
        (CHAT, [b": keep-alive\n\n"] * 20 + [chunk("a")] * 3, 3),
        ("/v1/messages", [BEGUN, *[DELTA] * 20], 32),
    ],
)
async def test_who_leaves_pays_what_was_made(tmp_path: Path, path: str, events: list[bytes], spent: int) -> None:
    """A stream tells its tokens at its end, which one who leaves does not hear."""

    async def pour(request: web.BaseRequest, raw: bytes) -> web.StreamResponse:
        out = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await out.prepare(request)
        await out.write(b"".join(events))
        await asyncio.sleep(600)
        return out

    (tmp_path / "keys.toml").write_text('[a]\nkey = "1"\ntokens_per_minute = 1\n')
    async with door(pour, keys_file=str(tmp_path / "keys.toml")) as d:
        sent = {**MESSAGES, "stream": True}
        async with d.client.post(d.url + path, json=sent, headers={"x-api-key": "1"}) as got:
            await got.content.readuntil(events[-1])
            (exchange,) = d.front.service.exchanges
            await d.until(lambda: exchange.events >= spent - 12)
        await d.until(lambda: not d.front.service.exchanges)
        bucket = d.front.service.limits.uses["a"].tokens
        assert bucket is not None
        assert 1 - spent <= bucket.level < 2 - spent  # what has come back since is less than one
        assert (await d.post(**{"x-api-key": "1"}))[0] == 429


async def test_a_whole_stream_pays_what_it_tells(tmp_path: Path) -> None:
    (tmp_path / "keys.toml").write_text('[a]\nkey = "1"\ntokens_per_minute = 1000\n')
    async with door(keys_file=str(tmp_path / "keys.toml")) as d:
        assert (await d.post(body={**HELLO, "stream": True}, **{"x-api-key": "1"}))[0] == 200
        await d.until(lambda: not d.front.service.exchanges)
        bucket = d.front.service.limits.uses["a"].tokens
        assert bucket is not None
        assert bucket.level == 995, "3 of the prompt and 2 of the answer; not its 4 events"


async def test_keys_change_while_the_front_runs(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    file.write_text(KEYS)
    async with door(keys_file=str(file)) as d:
        file.write_text("[broken")
        d.front.keyring.look()
        assert d.front.keyring.failed
        assert (await d.post(**{"x-api-key": "a-secret"}))[0] == 200
        file.write_text('[carol]\nkey = "c-secret"\n')
        d.front.keyring.look()
        assert [(await d.post(**{"x-api-key": key}))[0] for key in ("a-secret", "c-secret")] == [401, 200]


async def test_not_ready_is_said_in_the_dialect(tmp_path: Path) -> None:
    path = health(
        tmp_path, "LOADING", "decode: weights 42 %", roles={"decode": {"eta_s": 12.5}, "prefill": {"eta_s": None}}
    )
    async with door(health_file=str(path)) as d:
        status, body, headers = await d.post()
        assert (status, body["error"]["code"], headers["retry-after"]) == (503, "not_ready", "13")
        assert "LOADING: decode: weights 42 %" in body["error"]["message"]
        assert (await d.post("/v1/messages", MESSAGES))[1]["error"]["type"] == "overloaded_error"
        for where in ("/health", "/readyz", "/v1/health/ready"):
            status, body, _ = await d.get(where)
            assert (status, body) == (503, {"ready": False, "state": "LOADING", "reason": "decode: weights 42 %"})
        assert (await d.get("/livez"))[0] == 200
        assert (await d.get("/v1/models"))[0] == 503
        health(tmp_path, "READY")
        d.front.service.truth.look()
        assert (await d.post())[0] == 200
        assert (await d.get("/health"))[0] == 200
        health(tmp_path, "STOPPING", "told to stop")
        d.front.service.truth.look()
        assert [(await d.post())[0], (await d.get("/livez"))[0]] == [503, 503]
        path.unlink()
        d.front.service.truth.look()
        assert (await d.get("/health"))[1]["state"] == "BOOTING"


@pytest.mark.parametrize(("published", "limit"), [(None, 4096), (4096, 4096), (4000, 4000), (4352, 4096), ("x", 4096)])
async def test_models_tell_the_usable_context(tmp_path: Path, published: Any, limit: int) -> None:
    """The setting, or less where the servers themselves say so: one with a small KV pool takes less."""
    path = health(tmp_path, "READY", context_length=published)
    async with door(health_file=str(path), context_length=4096) as d:
        listed = (await d.get("/v1/models"))[1]["data"][0]
        assert listed["max_model_len"] == (await d.get("/v1/models/m"))[1]["max_model_len"] == limit
        headers = {"anthropic-version": "2023-06-01"}
        assert (await d.get("/v1/models/m", **headers))[1]["max_model_len"] == limit


async def test_the_guard_is_let_in_before_ready(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("of-the-guard")
    path = health(tmp_path, "WARMING")
    async with door(health_file=str(path), guard_key_file=str(tmp_path / "key"), key_file=str(tmp_path / "key")) as d:
        assert (await d.post(Authorization="Bearer of-the-guard"))[0] == 200


async def test_a_silent_guard_is_not_healthy_and_takes_nothing_away(tmp_path: Path) -> None:
    path = health(tmp_path, "READY", heartbeat_monotonic=time.monotonic() - 60)
    async with door(health_file=str(path)) as d:
        assert (await d.get("/readyz"))[0] == 503
        assert "silent" in (await d.get("/livez"))[1]["reason"]
        assert (await d.post())[0] == 200


async def test_preflight_and_origins() -> None:
    asks = {"Origin": "http://app", "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization,x-new"}  # fmt: skip
    async with door(cors_origins=("http://app",)) as d:
        async with d.client.options(d.url + CHAT, headers=asks) as got:
            assert got.status == 204
            assert got.headers["Access-Control-Allow-Origin"] == "http://app"
            assert got.headers["Access-Control-Allow-Headers"] == "authorization,x-new"
        async with d.client.options(d.url + CHAT, headers={**asks, "Origin": "http://other"}) as got:
            assert (got.status, got.headers.get("Access-Control-Allow-Origin")) == (405, None)
        _, _, headers = await d.post(Origin="http://app")
        assert headers["access-control-allow-origin"] == "http://app"
        assert (await d.post("/nosuch", Origin="http://app"))[2]["access-control-allow-origin"] == "http://app"
    async with door() as d:
        assert "access-control-allow-origin" not in (await d.post(Origin="http://app"))[2]
