"""A grammar that takes its time, on the real pair: its own request is ended with a reason, and nobody else waits.

The door refuses the grammars that are known to do so; here it stands open, as for one that nobody has thought of.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.appliance import Appliance

pytestmark = [pytest.mark.pair, pytest.mark.slow]

WORDS = "the grammar of this request takes too long to follow"
# Each text of it fits in so many ways that the matcher's work grows with every token.
SLOW = 'root ::= root root | "a"'
OPEN_DOOR = """
try:
    from dsv4_gate.grammars import Judge
except ImportError:
    pass
else:
    Judge.refusal = lambda judge, parameters: None
"""
SMALL_S = 15.0  # of a small request beside it, on a loaded machine; a scheduler that is held keeps it for minutes


@pytest.fixture(scope="module")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    root: Path = tmp_path_factory.mktemp("grammar")
    folder = root / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(OPEN_DOOR)
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    with Appliance(root, {"PYTHONPATH": path}) as running:
        yield running


def small(appliance: Appliance, over: threading.Event, took: list[tuple[int, float]]) -> None:
    while not over.is_set():
        begun = time.monotonic()
        body = {"model": "dsv4-demo", "prompt": "hi", "max_tokens": 2}
        took.append((appliance.call("/v1/completions", body, timeout=60)[0], time.monotonic() - begun))
        over.wait(0.2)


def test_a_slow_grammar_is_ended_and_costs_nobody_else(appliance: Appliance) -> None:
    pids = {role: appliance.pid(role) for role in ("prefill", "decode", "router")}
    took, over = list[tuple[int, float]](), threading.Event()
    beside = threading.Thread(target=small, args=(appliance, over, took))
    beside.start()
    body: dict[str, Any] = {
        "model": "dsv4-demo",
        "prompt": "a",
        "max_tokens": 3500,
        "ebnf": SLOW,
        "logit_bias": {"1": -100, "1513": -100},  # the two tokens that end the demo model's answers
    }
    try:
        status, answer = appliance.call("/v1/completions", body, timeout=240)
    finally:
        over.set()
        beside.join()
    assert status == 400 and WORDS in str(answer), (status, str(answer)[:300])
    assert {code for code, _ in took} == {200} and max(seconds for _, seconds in took) < SMALL_S, sorted(took)[-3:]
    assert {role: appliance.pid(role) for role in pids} == pids and appliance.state() in ("READY", "DEGRADED")
