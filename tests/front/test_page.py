"""The page to try it, and other people's pages, in a real browser."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from support.browser import Browser
from support.ports import free_ports

from front.conftest import COUNT, DONE, door, stream

pytestmark = pytest.mark.browser


def delta(**fields: Any) -> bytes:
    choice = {"index": 0, "delta": fields, "logprobs": None, "finish_reason": None}
    return b"data: " + json.dumps({"id": "1", "choices": [choice]}).encode() + b"\n\n"


async def talk(request: web.BaseRequest, raw: bytes) -> web.StreamResponse:
    """Thoughts, text and a call, as the engine streams them (recorded.json); the text is what was asked."""
    text = json.loads(raw)["messages"][-1]["content"]
    call = {
        "index": 0,
        "id": "c",
        "type": "function",
        "function": {"name": "get_weather", "arguments": '{"city": "Rome"}'},
    }
    parts = [delta(role="assistant", content=""), delta(reasoning_content="Let me see."), delta(content=text.upper())]
    return await stream(request, *parts, delta(tool_calls=[call]), COUNT, DONE)


def text_of(selector: str) -> str:
    return f"document.querySelector({json.dumps(selector)})?.textContent"


def say(browser: Browser, words: str) -> None:
    browser.run(
        f"(document.getElementById('text').value = {json.dumps(words)}, document.getElementById('send').click())"
    )


def try_it(url: str, folder: Path, key: str | None) -> None:
    with Browser(folder) as browser:
        browser.open(url + "/")
        if key is not None:
            browser.wait("!document.getElementById('key').hidden")
            change = "document.getElementById('key').dispatchEvent(new Event('change'))"
            browser.run(f"(document.getElementById('key').value = {json.dumps(key)}, {change})")
        browser.wait(f"{text_of('#model')} === 'm'")
        say(browser, "<b>hello</b>")
        browser.wait(f'{text_of(".call")} === \'get_weather({{"city": "Rome"}})\'')
        assert browser.run(text_of(".said")) == "<B>HELLO</B>", "shown as text, never as a page"
        assert browser.run(text_of(".thought")) == "Let me see."
        browser.wait(f"/first token after [0-9.]+ s/.test({text_of('#figures')})")
        browser.wait("!document.getElementById('send').disabled")
        say(browser, "again")
        browser.wait("document.querySelectorAll('.said').length === 2")
        assert browser.errors() == [] or key is not None  # the browser itself logs a 401
        assert browser.foreign(url) == []
        browser.resize(390, 844)
        assert browser.run("document.documentElement.scrollWidth") <= 390, "wider than a phone"


@pytest.mark.parametrize("key", [None, "a-secret"])
async def test_a_person_tries_it(tmp_path: Path, key: str | None) -> None:
    settings = {}
    if key:
        (tmp_path / "key").write_text(key)
        settings = {"key_file": str(tmp_path / "key")}
    async with door(talk, **settings) as d:
        await asyncio.to_thread(try_it, d.url, tmp_path, key)
        asked = d.router.heard[-1][2]["messages"]
        assert [turn["role"] for turn in asked] == ["user", "assistant", "user"]


ASK = """
fetch(%s, {method: "POST",
  headers: {Authorization: "Bearer a-secret", "Content-Type": "application/json", "x-new": "1"},
  body: JSON.stringify({model: "m", messages: [{role: "user", content: "hi"}]})})
  .then(answer => answer.json().then(body => window.found = answer.status + " " + body.choices[0].message.content))
  .catch(error => window.found = String(error))
"""


def ask_from(page: str, url: str, folder: Path) -> str:
    with Browser(folder) as browser:
        browser.open(page)
        browser.run(f"({ASK % json.dumps(url + '/v1/chat/completions')}, 1)")
        browser.wait("window.found !== undefined")
        return str(browser.run("window.found"))


async def test_a_browsers_own_preflight(tmp_path: Path) -> None:
    """A page of another origin, with a key and a header of its own, which a wildcard would not cover."""

    async def empty(_: web.BaseRequest) -> web.Response:
        return web.Response(text="<title>app</title>", content_type="text/html")

    (other,) = free_ports(1)
    runner = web.ServerRunner(web.Server(empty))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", other).start()
    page = f"http://127.0.0.1:{other}"
    (tmp_path / "key").write_text("a-secret")
    try:
        for origins, wanted in (((page,), "200 ok"), (("*",), "200 ok"), ((), "TypeError: Failed to fetch")):
            async with door(key_file=str(tmp_path / "key"), cors_origins=origins) as d:
                folder = tmp_path / str(len(d.url) + len(origins) + len(str(origins)))
                folder.mkdir()
                assert await asyncio.to_thread(ask_from, page + "/", d.url, folder) == wanted
    finally:
        await runner.cleanup()
