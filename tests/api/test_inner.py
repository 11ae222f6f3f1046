"""What the engine's own structures hold for its inner use, in a client's request: refused, or dropped by the router.

Each of the first ones ended a server, or held a scheduler, with a single request; the others are their relatives.
"""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from support.appliance import Appliance

from api.case import CHAT, MODEL, NATIVE, TEXT, user
from api.client import send
from api.fronts import ROUTERS, wait_idle
from api.test_conformance import SLOW_S

pytestmark = pytest.mark.pair
HOSTILE = "((((a|b|c|d|[^~])*)*)*)*~~$"


def native(sampling: dict[str, Any] | None = None, **fields: Any) -> tuple[str, dict[str, Any]]:
    return NATIVE, {"text": "two plus three", "sampling_params": {"max_new_tokens": 4, **(sampling or {})}, **fields}


def text(**fields: Any) -> tuple[str, dict[str, Any]]:
    return TEXT, {"model": MODEL, "prompt": "two plus three", "max_tokens": 4, **fields}


def chat(**fields: Any) -> tuple[str, dict[str, Any]]:
    return CHAT, {"model": MODEL, "messages": user("hi"), "max_tokens": 4, **fields}


PRENORMALIZED = {"is_normalized": True, "stop_strs": [], "stop_str_max_len": 0, "max_new_tokens": 60}
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "labels of metrics": native(custom_labels={"a": "b"}),
    "a label with a blank": native(custom_labels={"a b": "c"}),
    "129 log probabilities": native(return_logprob=True, top_logprobs_num=129),
    "256 log probabilities of the prompt": native(return_logprob=True, logprob_start_len=0, top_logprobs_num=256),
    "129 log probabilities of a completion": text(logprobs=129),
    "a pattern behind the engine's own mark": native({**PRENORMALIZED, "stop_regex_strs": [HOSTILE],
                                                      "stop_regex_max_len": 100}),
    "the engine's own mark alone": native({"is_normalized": True}),
    "a stop string of a million characters, by its length": native({"stop_str_max_len": 1_000_000}),
    "another process's address": native(http_worker_ipc="ipc:///nowhere"),
    "an encoder": native(encoder_urls=["http://127.0.0.1:9"], need_wait_for_mm_inputs=True),
    "waiting for an encoder": native(need_wait_for_mm_inputs=True),
    "hashes of images": native(mm_hashes=["x"], mm_content_hashes=["y"]),
    "an image processor's settings": chat(mm_processor_kwargs={"a": 1}, images_config={"a": 1}),
    "a sampling mask": native({"top_k": 1}, return_sampling_mask=True),
    "a sampling mask of a chat": chat(return_sampling_mask=True, top_k=1),
    "entropy": native(return_logprob=True, return_entropy=True),
    "flat log probabilities": native(return_logprob=True, logprob_start_len=0, top_logprobs_num=5,
                                     return_flat_raw_top_logprobs=True),
    "a trace that is none": native(external_trace_header={"traceparent": "x", "a": [1]}),
    "a time long ago": native(received_time=-1e300),
    "a time to come": native(received_time=1e300),
    "a number of thinking tokens": native(max_thinking_tokens=-5),
    "a watermark": native(watermark={"a": 1}),
    "a rank that is not there": native(routed_dp_rank=5),
    "a stream interval of nothing": native({"stream_interval": 0}),
    "two beams": native({"beam_width": 2}),
    "token ids outside the vocabulary, shown": native(return_logprob=True, token_ids_logprob=[10**8, -5]),
    "a parameter that nobody knows": native({"no_such": 1}),
    "parameters of the engine's inner request": native({"custom_params": {"__req__": "x", "thinking_budget": -5}}),
    "a tool call's arguments of 3,000 levels": chat(messages=[
        *user("a"), {"role": "assistant", "content": None, "tool_calls": [{"id": "x", "type": "function", "function": {
            "name": "f", "arguments": '{"a":' * 3000 + "1" + "}" * 3000}}]}]),
}  # fmt: skip


@pytest.mark.parametrize("router", ROUTERS)
def test_none_of_it_costs_anybody_anything(appliance: Appliance, fronts: dict[str, int], router: str) -> None:
    pids = {role: appliance.pid(role) for role in ("prefill", "decode", "router")}
    spent = appliance.health()["restarts"]["spent"]
    wrong = []
    for name, (path, body) in REQUESTS.items():
        answer = send(fronts[router], path, json.dumps(body))
        if answer.status not in (200, 400, 404, 422) or answer.seconds > SLOW_S:
            wrong.append(f"{name}: {answer.status} after {answer.seconds:.1f} s: {answer.text[:200]}")
        after = send(fronts[router], *text())
        if after.status != 200 or after.seconds > SLOW_S:
            wrong.append(f"after {name}: {after.status} after {after.seconds:.1f} s: {after.text[:200]}")
    wait_idle(appliance, 20)
    time.sleep(1)  # a server that ended is noticed within a moment
    assert not wrong, "\n".join(wrong)
    assert {role: appliance.pid(role) for role in pids} == pids
    assert (appliance.state(), appliance.health()["restarts"]["spent"]) == ("READY", spent)
