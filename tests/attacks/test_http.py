"""Requests that no client library writes, at the API port of the real pair: nobody else notices.

What stands at that port is not assumed: each attack is bytes, and what must hold is the same for whoever answers.
"""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from dsv4_pd.run.guard.watch import tree
from support.appliance import Appliance

from attacks import bodies, framing, paths
from attacks.floods import FLOODS
from attacks.unharmed import unharmed
from attacks.wire import Reply, Target, head, post, small

pytestmark = [pytest.mark.pair, pytest.mark.slow]
SILENCE_S = 1.0  # how long the end of an answer is waited for
FLOOD_S = 4.0


def answered_or_closed(reply: Reply) -> bool:
    """No server error, and not left open after an answer; a client that sends no whole request may be waited for."""
    return all(status < 500 or status == 501 for status in reply.statuses)


def check(replies: list[tuple[str, Reply]]) -> None:
    bad = [(name, reply.statuses, reply.raw[-300:]) for name, reply in replies if not answered_or_closed(reply)]
    assert bad == []


def test_requests_of_every_length_and_coding(appliance: Appliance) -> None:
    """And none is taken for two: a second request in the body of the first is never answered."""
    with unharmed(appliance) as target:
        target.send_all(framing.lengths().items(), SILENCE_S)
    check(target.replies)
    final = {name: [status for status in reply.statuses if status != 100] for name, reply in target.replies}
    twice = {name for name, statuses in final.items() if len(statuses) > 1}
    if not has_front(appliance) and appliance.environ["DSV4_ROUTER"] == "sglang-router":
        # It goes by the chunks, as it may, and keeps the connection, which it must not (RFC 9112, 6.1).
        twice = {name for name in twice if not name.startswith("length and chunks")}
    assert twice == set()


def test_a_bomb_costs_nothing(appliance: Appliance) -> None:
    """Nobody unpacks it, be it to find that it is too large: that would hold up everybody whom the same loop serves."""
    target, bombs = (
        Target(appliance.ports["DSV4_PORT"]),
        [raw for name, raw in framing.lengths().items() if "bomb" in name],
    )
    before = cpu_seconds(appliance)
    for number in range(12):  # 64 MiB each, which take two seconds to unpack on any processor
        reply = target.send("bomb", bombs[number % len(bombs)], SILENCE_S)
        assert all(400 <= status < 500 for status in reply.statuses), reply.raw[:200]
    assert cpu_seconds(appliance) - before < 1.0


def cpu_seconds(appliance: Appliance) -> float:
    """Of all that is no engine, each with its threads: whatever stands before the engines is among them."""
    engines = {pid for role in ("prefill", "decode") for pid in tree.members(appliance.pid(role))}
    found = 0
    for pid in set(appliance.pids()) - engines:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        found += int(fields[11]) + int(fields[12])
    return found / os.sysconf("SC_CLK_TCK")


def has_front(appliance: Appliance) -> bool:
    """Whether a program of ours stands at the API port, before the router."""
    return (appliance.root / "run" / "front.json").exists()


def test_heads_and_protocols_of_every_form(appliance: Appliance) -> None:
    with unharmed(appliance) as target:
        target.send_all(framing.heads().items(), SILENCE_S)
    check(target.replies)


@pytest.mark.parametrize("kind", ["texts", "deep", "wide"])
def test_json_of_every_form(appliance: Appliance, kind: str) -> None:
    with unharmed(appliance) as target:
        cases = getattr(bodies, kind)()
        target.send_all(((f"{name} at {path}", post(body, path)) for name, path, body in cases), 30.0)
    check(target.replies)
    slow = [(name, reply.seconds) for name, reply in target.replies if reply.seconds > 25]
    assert not slow


def test_fields_with_values_that_they_do_not_expect(appliance: Appliance) -> None:
    with unharmed(appliance) as target:
        some = list(bodies.values())[:: bodies.SHARE]
        target.send_all(((name, post(body, path)) for name, path, body in some), 30.0)
    check(target.replies)


@pytest.mark.long
def test_every_field_with_every_value(appliance: Appliance) -> None:
    with unharmed(appliance) as target:
        target.send_all(((name, post(body, path)) for name, path, body in bodies.values()), 30.0)
    check(target.replies)


def test_no_spelling_of_a_path_leads_behind_the_api(appliance: Appliance) -> None:
    with unharmed(appliance) as target:
        for path in paths.CONTROL:
            for spelling in paths.spellings(path):
                for method in ("GET", "POST"):
                    target.send(f"{method} {spelling}", head(method, spelling, {"Content-Length": "0"}), SILENCE_S)
    opened = [(name, reply.statuses, reply.raw[-200:]) for name, reply in target.replies
              if not set(reply.statuses) <= {301, 307, 308, 400, 401, 403, 404, 405, 421}
              and b"mesh not enabled" not in reply.raw]  # fmt: skip
    assert opened == []


def test_it_is_no_proxy(appliance: Appliance) -> None:
    """A target that names one of our own servers, which listen on loopback for nobody else."""
    hidden = ("DSV4_PREFILL_PORT", "DSV4_DECODE_PORT", "DSV4_BOOTSTRAP_PORT", "DSV4_ROUTER_METRICS_PORT")
    with unharmed(appliance) as target:
        for port in hidden:
            for path in ("/workers", "/metrics", "/get_internal_state", "/route"):
                for absolute in paths.absolute(appliance.ports[port], path):
                    target.send(absolute, head("GET", absolute), SILENCE_S)
            target.send("connect", head("CONNECT", f"127.0.0.1:{appliance.ports[port]}"), SILENCE_S)
    opened = [(name, reply.statuses) for name, reply in target.replies if 200 in reply.statuses]
    assert opened == []


@pytest.mark.parametrize("kind", FLOODS)
def test_floods(appliance: Appliance, kind: str) -> None:
    if kind == "bodies" and not has_front(appliance):
        # It counts a request from its head on: some hundred slow bodies are all that it lets in at once. Whatever reads
        # whole bodies before it counts is not moved by them.
        pytest.xfail("the router itself is the API port, and has no bound for the time of a body")
    with unharmed(appliance) as target, ThreadPoolExecutor() as pool:
        for done in [pool.submit(flood, target, FLOOD_S) for flood in FLOODS[kind]]:
            done.result()
    assert target.send("next", head("GET", "/v1/models"), 5.0).statuses == [200], "whoever comes next is let in"


@pytest.mark.parametrize("fields", [{"prompt": "word " * 5000}, {"model": "nobody"}], ids=["too long", "no such model"])
def test_an_error_of_a_streamed_request_is_json(appliance: Appliance, fields: dict[str, str]) -> None:
    """A client reads an error by its status and its JSON; a stream's line of text is neither."""
    if not has_front(appliance):
        pytest.xfail("a router passes an engine's error on as a stream")
    reply = Target(appliance.ports["DSV4_PORT"]).send("streamed", post(small(stream=True, **fields)), 20.0)
    top, _, body = reply.raw.partition(b"\r\n\r\n")
    assert reply.statuses[0] in (400, 404)
    assert b"content-type: application/json" in top.lower()
    assert json.loads(body)["error"]["message"]
