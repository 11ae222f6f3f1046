"""Nothing that a client says stays in a router: its memory would grow with every request, open to every client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from api.administration import Router, Worker, router
from api.fronts import ROUTERS

pytestmark = pytest.mark.pair


@pytest.fixture(params=ROUTERS)
def running(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Router]:
    with Worker("prefill") as prefill, Worker("decode") as decode:
        with router(tmp_path, request.param, (prefill, decode), None) as started:
            yield started


def test_a_conversation_is_not_kept(running: Router) -> None:
    made = running.call("POST", "/v1/conversations", {"metadata": {"a": "b"}})
    name = made.json().get("id", "none") if made.status_code == 200 else "none"
    kept = running.call("GET", f"/v1/conversations/{name}")
    items = running.call("POST", f"/v1/conversations/{name}/items", {"items": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a secret"}]}]})  # fmt: skip
    listed = running.call("GET", f"/v1/conversations/{name}/items")
    print(made.status_code, kept.status_code, items.status_code, listed.status_code, listed.text[:200])
    assert kept.status_code != 200, kept.text
    assert "a secret" not in listed.text
    assert running.complete().status_code == 200
