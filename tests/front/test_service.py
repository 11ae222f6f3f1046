"""The front as clients meet it: real sockets on both sides, a stand-in for the router behind it."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from front.conftest import CHAT, COUNT, DONE, HELLO, chunk, door, once, stream

STREAM = {**HELLO, "stream": True}
MESSAGES = {**HELLO, "max_tokens": 4}
KEYS = '[alice]\nkey = "a-secret"\n[bob]\nkey = "b-secret"\nrequests_per_minute = 2\n'


def health(folder: Path, state: str, reason: str = "why", **fields: Any) -> Path:
    path = folder / "health.json"
    path.write_text(json.dumps({"state": state, "reason": reason, "heartbeat_monotonic": time.monotonic(), **fields}))
    return path


async def test_one_answer() -> None:
    async with door() as d:
        status, body, headers = await d.post()
        assert (status, body["choices"][0]["message"]["content"]) == (200, "ok")
        assert headers["content-type"] == "application/json"
        path, sent, asked = d.router.heard[0]
        assert (path, asked) == (CHAT, HELLO)
        assert sent["x-request-id"] == headers["x-request-id"]


async def test_what_needs_no_change_is_passed_on_byte_for_byte() -> None:
    raws: list[bytes] = []

    async def answer(request: web.BaseRequest, raw: bytes) -> web.StreamResponse:
        raws.append(raw)
        return await once(request, raw)

    odd = b'{"model": "m",  "messages":[ {"role":"user","content":"\\u00e9"}], "temperature": 1.10}'
    async with door(answer) as d:
        assert (await d.post(body=odd))[0] == 200
    assert raws == [odd]


async def test_a_stream_is_passed_on_as_it_comes() -> None:
    gate = asyncio.Event()

    async def answer(request: web.BaseRequest, raw: bytes) -> web.StreamResponse:
        out = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await out.prepare(request)
        await out.write(chunk("a"))
        await gate.wait()
        await out.write(chunk("b") + DONE)
        await out.write_eof()
        return out

    async with door(answer) as d, d.client.post(d.url + CHAT, json=STREAM) as got:
        async with asyncio.timeout(20):
            assert await got.content.readany() == chunk("a"), "the first event waits for nothing"
        gate.set()
        assert await got.content.read() == chunk("b") + DONE


async def test_the_count_of_a_stream_is_for_who_asked() -> None:
    async with door() as d:
        _, plain, _ = await d.post(body=STREAM)
        _, counted, _ = await d.post(body={**STREAM, "stream_options": {"include_usage": True}})
        assert plain.encode() == chunk("a") + chunk("b") + DONE
        assert counted.encode() == chunk("a") + chunk("b") + COUNT + DONE
        assert [asked["stream_options"] for _, _, asked in d.router.heard] == [{"include_usage": True}] * 2
        series = d.front.service.metrics.of(CHAT, "anyone", "openai")
        assert (series.prompt_tokens, series.completion_tokens) == (6, 4)


async def test_an_answer_is_json_whatever_the_router_calls_it() -> None:
    async def answer(request: web.BaseRequest, raw: bytes) -> web.StreamResponse:
        return web.Response(body=b'{"choices":[]}', content_type="application/octet-stream")

    async with door(answer) as d:
        assert (await d.post())[2]["content-type"] == "application/json"


@pytest.mark.parametrize("path", ["/workers", "/flush_cache", "/v1/embeddings", "/metrics", "/get_server_info", "/v1"])
async def test_only_what_is_listed_exists(path: str) -> None:
    async with door() as d:
        for status, body, _ in (await d.get(path), await d.post(path)):
            assert status == 404
            assert body["error"]["code"] == "unknown_url"
        assert d.router.heard == []


@pytest.mark.parametrize("path", [CHAT, "//v1/chat/completions", "/v1/chat/completions/", "/v1/%63hat/completions"])
async def test_a_path_leads_to_one_place_only(path: str) -> None:
    async with door() as d:
        status, _, _ = await d.post(path)
        asked = [where for where, _, _ in d.router.heard]
        assert (status, asked) in ((200, [CHAT]), (404, []))


async def test_a_wrong_method_is_named() -> None:
    async with door() as d:
        status, body, headers = await d.get(CHAT)
        assert (status, headers["allow"]) == (405, "POST")
        assert "expected POST" in body["error"]["message"]


async def test_messages_without_smg_name_the_setting() -> None:
    async with door(router="sglang-router") as d:
        status, body, headers = await d.post("/v1/messages", MESSAGES)
        assert (status, body["type"], body["error"]["type"]) == (404, "error", "not_found_error")
        assert "DSV4_ROUTER=smg" in body["error"]["message"]
        assert body["request_id"] == headers["request-id"] == headers["x-request-id"]
        assert "DSV4_ROUTER=smg" in (await d.post("/v1/responses", {"input": "x"}))[1]["error"]["message"]


async def test_models() -> None:
    async with door() as d:
        status, body, headers = await d.get("/v1/models")
        assert (status, headers["content-type"]) == (200, "application/json")
        assert [(one["id"], one["object"]) for one in body["data"]] == [("m", "model")]
        assert (await d.get("/v1/models/m"))[1] == body["data"][0]
        status, body, _ = await d.get("/v1/models/x")
        assert (status, body["error"]["code"]) == (404, "model_not_found")
        assert (await d.get("/v1/models", **{"anthropic-version": "2023-06-01"}))[1]["first_id"] == "m"


async def test_a_model_with_a_slash_in_its_name_is_found() -> None:
    async with door(model="deepseek-ai/DeepSeek-V4-Flash") as d:
        for path in ("/v1/models/deepseek-ai/DeepSeek-V4-Flash", "/v1/models/deepseek-ai%2FDeepSeek-V4-Flash"):
            assert (await d.get(path))[1]["id"] == "deepseek-ai/DeepSeek-V4-Flash"


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [(b"{", 400, "no JSON"), (b"[1]", 400, "expected an object"), (b"", 400, "no JSON"),
     (b'{"model":"\xff"}', 400, "no JSON"), (b"[" * 100_000, 400, "no JSON")],
)  # fmt: skip
async def test_a_body_that_is_none(body: bytes, status: int, words: str) -> None:
    async with door() as d:
        found, answer, _ = await d.post(body=body)
        assert found == status
        assert words in answer["error"]["message"]


async def test_a_body_that_is_too_large() -> None:
    async def pieces() -> Any:
        for _ in range(64):
            yield b" " * 1024

    async with door(max_body=4096) as d:
        status, body, _ = await d.post("/v1/messages", b" " * 5000)
        assert (status, body["error"]["type"]) == (413, "request_too_large")
        async with d.client.post(d.url + CHAT, data=pieces()) as got:
            assert (got.status, (await got.json())["error"]["code"]) == (413, "request_too_large")
        assert d.router.heard == []


async def test_a_body_that_does_not_come() -> None:
    async def never() -> Any:
        yield b"{"
        await asyncio.sleep(60)

    async with door(body_timeout=0.2) as d, d.client.post(d.url + CHAT, data=never()) as got:
        assert got.status == 408


async def test_a_large_body_is_asked_for() -> None:
    async with door() as d, d.client.post(d.url + CHAT, json=HELLO, expect100=True) as got:
        assert got.status == 200


@pytest.mark.parametrize("sent", ["my-id.1:2", None, "two words", "x" * 300])
async def test_a_request_has_one_id(sent: str | None) -> None:
    async with door() as d:
        _, _, headers = await d.post(**({"x-request-id": sent} if sent else {}))
        assert headers["x-request-id"] == d.router.heard[0][1]["x-request-id"]
        assert (headers["x-request-id"] == sent) == (sent == "my-id.1:2")


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


REFUSALS = [
    (400, b'{"error":{"message":"bad"}}', 400, "bad"),
    (422, b"Failed to deserialize", 400, "Failed to deserialize"),
    (501, b"Not implemented", 404, "Not implemented"),
    (401, b"", 502, "401 without a word"),
    (503, b'{"error":{"message":"no room"}}', 503, "no room"),
    (500, b'{"error":{"message":"oh"}}', 500, "oh"),
]


@pytest.mark.parametrize(("status", "raw", "wanted", "words"), REFUSALS)
async def test_a_routers_error_becomes_one_of_the_dialect(status: int, raw: bytes, wanted: int, words: str) -> None:
    async def answer(request: web.BaseRequest, _: bytes) -> web.StreamResponse:
        return web.Response(status=status, body=raw, content_type="text/event-stream")

    async with door(answer) as d:
        for path, body in ((CHAT, STREAM), ("/v1/messages", MESSAGES)):
            found, got, headers = await d.post(path, body)
            assert (found, headers["content-type"]) == (wanted, "application/json")
            assert words in got["error"]["message"]
            assert ("retry-after" in headers) == (wanted == 503)


async def test_a_router_that_is_away() -> None:
    async with door() as d:
        d.front.upstream._url = "http://127.0.0.1:1"
        status, body, headers = await d.post()
        assert (status, body["error"]["code"], headers["retry-after"]) == (503, "router_down", "2")


async def test_a_stream_that_breaks_ends_with_an_error() -> None:
    async def cut(request: web.BaseRequest, _: bytes) -> web.StreamResponse:
        return await stream(request, chunk("a"), end=False)

    async def short(request: web.BaseRequest, _: bytes) -> web.StreamResponse:
        return await stream(request, chunk("a"))

    for answer in (cut, short):
        async with door(answer) as d:
            _, text, _ = await d.post(body=STREAM)
            events = text.strip().split("\n\n")
            assert events[0].encode() + b"\n\n" == chunk("a")
            assert json.loads(events[-1].removeprefix("data: "))["error"]["code"] == "upstream_broke"
            assert d.front.service.metrics.of(CHAT, "anyone", "openai").ended == {"upstream broke": 1}


async def test_an_answer_that_breaks_is_an_error() -> None:
    async def answer(request: web.BaseRequest, _: bytes) -> web.StreamResponse:
        out = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "100"})
        await out.prepare(request)
        await out.write(b"{")
        assert request.transport is not None
        request.transport.abort()
        return out

    async with door(answer) as d:
        status, body, _ = await d.post()
        assert (status, body["error"]["code"]) == (502, "upstream_broke")


async def test_an_answer_that_takes_too_long() -> None:
    async def never(request: web.BaseRequest, _: bytes) -> web.StreamResponse:
        await asyncio.sleep(60)
        return web.Response()

    async def halfway(request: web.BaseRequest, _: bytes) -> web.StreamResponse:
        out = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await out.prepare(request)
        await out.write(chunk("a"))
        await asyncio.sleep(60)
        return out

    async with door(never, request_timeout=0.3) as d:
        assert (await d.post())[0] == 504
        await d.until(lambda: d.router.left == 1)
    async with door(halfway, request_timeout=0.5) as d:
        _, text, _ = await d.post(body=STREAM)
        assert '"code":"timeout"' in text
        await d.until(lambda: d.router.left == 1)


async def test_the_request_log_has_no_word_of_the_content(tmp_path: Path) -> None:
    file = tmp_path / "requests.log"
    async with door(request_log=str(file)) as d:
        await d.post(body={**STREAM, "messages": [{"role": "user", "content": "a secret"}]})
        await d.post(body={"model": "another secret"})
        file.rename(tmp_path / "moved")
        await d.post()
    first, second = map(json.loads, (tmp_path / "moved").read_text().splitlines())
    assert (first["status"], first["events"], first["completion_tokens"], first["ended"]) == (200, 4, 2, "whole")
    assert (second["status"], second["ended"]) == (404, "refused")
    assert "secret" not in (tmp_path / "moved").read_text()
    assert json.loads(file.read_text())["stream"] is False


async def test_metrics_on_loopback() -> None:
    from support.appliance import free_ports

    (port,) = free_ports(1)
    async with door(metrics_port=port) as d:
        await d.post(body=STREAM)
        await d.post("/nosuch")
        async with aiohttp.ClientSession() as client, client.get(f"http://127.0.0.1:{port}/metrics") as got:
            text = await got.text()
    labels = 'route="/v1/chat/completions",key="anyone",dialect="openai"'
    assert f'dsv4_front_requests_total{{{labels},status="200"}} 1' in text
    assert f"dsv4_front_time_to_first_token_seconds_count{{{labels}}} 1" in text
    assert f"dsv4_front_completion_tokens_total{{{labels}}} 2" in text
    assert 'route="none",key="none",dialect="openai",status="404"' in text
