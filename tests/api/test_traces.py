"""Traces of both real routers, with the command line and environment of the plan, into a real OTLP receiver."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from conftest import VENVS

from api.administration import Worker, router, wait
from api.fronts import ROUTERS

pytestmark = pytest.mark.pair
RECEIVER = Path(__file__).parents[1] / "support/otlp_receiver.py"
ID, TRACE = "req_0123456789abcdef", "4bf92f3577b34da6a3ce929d0e0e4736"
HEADERS = {"x-request-id": ID, "traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}


@contextmanager
def receiver(folder: Path) -> Iterator[tuple[int, Path]]:
    """Its port, and the file of what it was sent."""
    told = folder / "traces"
    with told.open("wb") as out:
        process = subprocess.Popen([VENVS / "smg/bin/python", RECEIVER], stdout=out)
    try:
        wait(lambda: b"\n" in told.read_bytes(), 60)
        yield int(told.read_text().split()[0]), told
    finally:
        process.kill()
        process.wait(20)


def sent(told: Path) -> bytes:
    return b"".join(map(bytes.fromhex, told.read_text().split()[1:]))


@pytest.mark.parametrize("kind", ROUTERS)
def test_a_request_is_a_span_with_our_id(tmp_path: Path, kind: str) -> None:
    with (
        receiver(tmp_path) as (port, told),
        Worker("prefill") as prefill,
        Worker("decode") as decode,
        router(tmp_path, kind, (prefill, decode), None,
               OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{port}/") as running,
        httpx2.Client(trust_env=False, timeout=20, headers=HEADERS) as client,
    ):  # fmt: skip
        answer = client.post(running.url + "/v1/completions", json={"model": "stub", "prompt": "a secret prompt"})
        assert answer.status_code == 200
        wait(lambda: ID.encode() in sent(told), 60, lambda: repr(sent(told)))
        spans = sent(told)
        log = (tmp_path / "router.log").read_text()
    assert b"http_request" in spans
    assert b"/v1/completions" in spans
    assert b"a secret prompt" not in spans
    if kind == "smg":  # sglang-router begins a trace of its own
        assert bytes.fromhex(TRACE) in spans, "the client's trace goes on"
    assert "processing request" not in log, "the router's own log is as quiet as without traces"


@pytest.mark.parametrize("kind", ROUTERS)
def test_a_collector_that_is_not_there_costs_no_request(tmp_path: Path, kind: str) -> None:
    with (
        Worker("prefill") as prefill,
        Worker("decode") as decode,
        router(tmp_path, kind, (prefill, decode), None, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9") as running,
    ):
        assert [running.complete().status_code for _ in range(3)] == [200] * 3
