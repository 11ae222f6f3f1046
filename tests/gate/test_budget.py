"""The scheduler's account of a grammar: what is counted, who is ended."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def request(grammar: Any, rid: str = "a", finished: bool = False) -> SimpleNamespace:
    return SimpleNamespace(grammar=grammar, rid=rid, finished=lambda: finished)


def step(meter: Any, clock: Clock, grammar: Any, seconds: float) -> None:
    def work(_: Any) -> str:
        clock.now += seconds
        return "mask"

    assert meter.timed(work, grammar) == "mask"


def test_a_long_answer_with_an_ordinary_grammar_is_never_ended() -> None:
    from dsv4_gate.budget import Meter

    clock, grammar = Clock(), SimpleNamespace()
    meter = Meter(clock)
    for _ in range(100_000):
        step(meter, clock, grammar, 0.005)
    assert meter.late([request(grammar)]) == []


def test_a_grammar_that_takes_ever_longer_is_ended_and_no_other() -> None:
    from dsv4_gate.budget import Meter

    clock, slow, quick = Clock(), SimpleNamespace(), SimpleNamespace()
    meter = Meter(clock)
    took = 0
    while not (late := meter.late([request(slow, "slow"), request(quick, "quick"), request(None, "none")])):
        took += 1
        step(meter, clock, slow, 0.010 + 0.001 * took)
        step(meter, clock, quick, 0.001)
    assert late == ["slow"]
    assert clock.now < 2.0
    assert meter.late([request(slow, "slow")]) == [], "said once"


def test_the_account_is_found_behind_the_engines_wrapper_for_thoughts() -> None:
    from dsv4_gate.budget import Meter

    clock, inner = Clock(), SimpleNamespace()
    meter = Meter(clock)
    step(meter, clock, inner, 2.0)
    wrapped = SimpleNamespace(grammar=inner)
    assert meter.late([request(wrapped), request(wrapped, "b", finished=True)]) == ["a"]


def test_a_call_that_fails_is_counted_too() -> None:
    from dsv4_gate.budget import Meter, spent

    clock, grammar = Clock(), SimpleNamespace()

    def fails(_: Any) -> None:
        clock.now += 3.0
        raise ValueError("token not accepted")

    with pytest.raises(ValueError, match="not accepted"):
        Meter(clock).timed(fails, grammar)
    assert spent(grammar) == pytest.approx(2.99)


def test_the_client_gets_a_400_in_words() -> None:
    from dsv4_gate.budget import WORDS
    from dsv4_gate.overload import reworded

    found = reworded({"type": "abort", "message": WORDS, "status_code": 503})
    assert (found["status_code"].value, found["message"]) == (400, WORDS)
