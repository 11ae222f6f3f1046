"""The front as clients meet it: real sockets on both sides, a stand-in for the router behind it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from front.conftest import CHAT, COUNT, DONE, HELLO, chunk, door, once

STREAM = {**HELLO, "stream": True}
MESSAGES = {**HELLO, "max_tokens": 4}


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


@pytest.mark.parametrize("sent", ["my-id.1:2", None, "two words", "x" * 300])
async def test_a_request_has_one_id(sent: str | None) -> None:
    async with door() as d:
        _, _, headers = await d.post(**({"x-request-id": sent} if sent else {}))
        assert headers["x-request-id"] == d.router.heard[0][1]["x-request-id"]
        assert (headers["x-request-id"] == sent) == (sent == "my-id.1:2")


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
    from support.ports import free_ports

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
