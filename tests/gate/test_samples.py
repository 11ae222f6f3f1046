"""`n` as n requests: both servers must come to the same rooms, and no two requests may share one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st


def spread(**fields: Any) -> SimpleNamespace:
    from dsv4_gate.samples import spread as act

    plain = {"text": None, "input_ids": None, "rid": None, "bootstrap_host": "h", "bootstrap_port": 1}
    request = SimpleNamespace(**{**plain, **fields})
    act(request)
    return request


def test_one_answer_is_left_alone() -> None:
    request = spread(text="a", sampling_params={"n": 1}, bootstrap_room=7)
    assert (request.text, request.bootstrap_room, request.sampling_params) == ("a", 7, {"n": 1})


def test_answers_of_a_prompt_stand_side_by_side() -> None:
    request = spread(text=["a", "b"], sampling_params={"n": 2, "temperature": 1}, bootstrap_room=[7, 70])
    assert request.text == ["a", "a", "b", "b"]
    assert request.bootstrap_room == [7, 8, 70, 71]
    assert request.sampling_params == {"n": 1, "temperature": 1}


def test_token_ids_and_lists_of_parameters() -> None:
    request = spread(
        input_ids=[5, 6],
        sampling_params=[{"n": 2, "max_new_tokens": 4}],
        bootstrap_room=3,
        bootstrap_host=["h"],
        bootstrap_port=[1, 1],
        rid=["r"],
    )
    assert request.input_ids == [[5, 6], [5, 6]]
    assert request.sampling_params == [{"n": 1, "max_new_tokens": 4}] * 2
    assert (request.bootstrap_host, request.bootstrap_port) == (["h", "h"], [1, 1])
    assert request.rid == ["r-0", "r-1"]


def test_rooms_that_fit_no_count_are_refused() -> None:
    with pytest.raises(ValueError, match="bootstrap_room has 3 entries, expected 1, 2 or 4"):
        spread(text=["a", "b"], sampling_params={"n": 2}, bootstrap_room=[1, 2, 3])


@given(st.integers(1, 6), st.integers(2, 6), st.integers(0, (1 << 63) - 1))
def test_every_request_has_a_room_of_its_own_that_fits_63_bits(prompts: int, n: int, room: int) -> None:
    request = spread(text=["x"] * prompts, sampling_params={"n": n}, bootstrap_room=room)
    assert len(request.text) == len(set(request.bootstrap_room)) == prompts * n
    assert all(0 <= given < 1 << 63 for given in request.bootstrap_room)
