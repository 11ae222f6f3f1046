"""The front as clients meet it: real sockets on both sides, a stand-in for the router behind it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from front.conftest import CHAT, COUNT, DONE, HELLO, chunk, door, once, stream

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
        return await stream(request, chunk("a"), gate, chunk("b") + DONE)

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
        assert "max_model_len" not in body["data"][0], "nobody knows it here"
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


PING = b'event: ping\ndata: {"type":"ping"}\n\n'
CREATED = b'event: response.created\ndata: {"type":"response.created"}\n\n'
STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'


@pytest.mark.parametrize(("path", "signs"), [(CHAT, b": keep-alive\n\n"), ("/v1/messages", PING),
                                             ("/v1/responses", CREATED)])  # fmt: skip
async def test_a_sign_of_life_is_no_first_token(path: str, signs: bytes) -> None:
    gate = asyncio.Event()
    brought = b'event: x\ndata: {"type":"x"}\n\n'

    async def answer(request: web.BaseRequest, raw: bytes) -> web.StreamResponse:
        return await stream(request, signs, gate, signs + brought + signs + brought + STOP)

    sent = {"model": "m", "stream": True, "messages": [], "input": "x"}
    async with door(answer) as d, d.client.post(d.url + path, json=sent) as got:
        await got.content.readuntil(signs)
        (exchange,) = d.front.service.exchanges
        await d.until(lambda: exchange.bytes_out > 0)
        assert (exchange.first, exchange.events) == (None, 0)
        gate.set()
        await got.read()
        assert exchange.first is not None
        assert exchange.events == 3


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch looks each 10 ms and not each second."""
    monkeypatch.setattr("dsv4_pd.run.front.service.WATCH_S", 0.01)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("path", [CHAT, "/v1/messages", "/v1/responses", "/v1/completions", "/generate"])
async def test_a_silent_stream_is_kept_open(path: str) -> None:
    """The engine's answer begins with the first token, so before it there is no answer of the router's either."""
    gate, begun = asyncio.Event(), asyncio.Event()

    async def answer(request: web.BaseRequest, raw: bytes) -> web.StreamResponse:
        await gate.wait()
        return await stream(request, chunk("a"), begun, DONE)

    sent = {"model": "m", "stream": True, "messages": [], "input": "x", "prompt": "x", "text": "x", "max_tokens": 5}
    if path == "/v1/responses":
        del sent["text"]
    async with door(answer, keep_alive=0.02) as d, d.client.post(d.url + path, json=sent) as got:
        assert got.status == 200, "told before the router has answered"
        assert got.headers["Content-Type"].startswith("text/event-stream")
        for _ in range(2):
            assert await got.content.readuntil(b"\n\n") == b": keep-alive\n\n"
        gate.set()
        while (event := await got.content.readuntil(b"\n\n")) == b": keep-alive\n\n":
            pass
        assert b'"a"' in event
        assert await got.content.readuntil(b"\n\n") == b": keep-alive\n\n", "between two tokens as well"
        begun.set()
        rest = await got.read()
        assert rest.replace(b": keep-alive\n\n", b"") == DONE
        assert d.front.service.metrics.of(path, "anyone", got_dialect(path)).ended["whole"] == 1


def got_dialect(path: str) -> str:
    return {"/v1/messages": "anthropic", "/v1/responses": "responses", "/generate": "native"}.get(path, "openai")


@pytest.mark.usefixtures("quick")
async def test_an_error_after_a_stream_has_begun_is_an_event() -> None:
    gate = asyncio.Event()

    async def answer(request: web.BaseRequest, raw: bytes) -> web.StreamResponse:
        await gate.wait()
        return web.json_response({"error": {"message": "the prompt is too long"}}, status=400)

    async with door(answer, keep_alive=0.02) as d:
        for path, kind in ((CHAT, b"invalid_request_error"), ("/v1/messages", b"event: error")):
            gate.clear()
            async with d.client.post(d.url + path, json={**STREAM, "max_tokens": 5}) as got:
                await got.content.readuntil(b": keep-alive\n\n")
                gate.set()
                rest = await got.read()
            assert got.status == 200
            assert b"the prompt is too long" in rest
            assert kind in rest
        assert d.front.service.admission.used == 0
        assert d.front.service.metrics.of(CHAT, "anyone", "openai").statuses == {"400": 1}


@pytest.mark.usefixtures("quick")
async def test_an_answer_in_one_piece_is_kept_open_by_nobody() -> None:
    """There is no room in JSON for a sign of life, and a status is worth more."""

    async def answer(request: web.BaseRequest, raw: bytes) -> web.StreamResponse:
        await asyncio.sleep(0.2)
        return web.json_response({"error": {"message": "no"}}, status=400)

    async with door(answer, keep_alive=0.02) as d:
        status, body, _ = await d.post()
        assert (status, body["error"]["message"]) == (400, "no")


async def test_a_trace_goes_on_behind_the_door() -> None:
    trace = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "tracestate": "a=1",
             "baggage": "b=2"}  # fmt: skip
    async with door() as d:
        await d.post(**trace, Cookie="c=3")
        heard = d.router.heard[0][1]
        assert {name: heard.get(name) for name in trace} == trace
        assert "Cookie" not in heard
