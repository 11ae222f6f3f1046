"""Odd spellings that the plan accepts, asked of the real consumers: each takes the value that was meant.

The engine's and the routers' own interpreters parse and resolve the command lines, as `plan --resolve` has them do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from conftest import VENVS
from dsv4_pd.plan.plan import Plan
from dsv4_pd.plan.resolve import ask
from support.engine import resolve
from support.plans import eight_cards, make, no_gpu

FLASH = Path(__file__).parent / "data" / "deepseek-v4-flash"
pytestmark = pytest.mark.engine

# setting -> (as it is spelt, role, the engine's own name, what it resolves to)
ON_GPUS: dict[str, tuple[str, str, str, Any]] = {
    "MODEL": (f'"{FLASH}/"', "prefill", "model_path", str(FLASH)),
    "SERVED_MODEL_NAME": ("'DeepSeek V4 (fast) %s é'", "prefill", "served_model_name", "DeepSeek V4 (fast) %s é"),
    "CONTEXT_LENGTH": ("065536", "prefill", "context_length", 65536 + 256),
    "MAX_RUNNING_REQUESTS": ('"16"', "decode", "max_running_requests", 16),
    "PREFILL_MEM_FRACTION": (".8125", "prefill", "mem_fraction_static", 0.8125),
    "DECODE_MEM_FRACTION": ("'0.8500'", "decode", "mem_fraction_static", 0.85),
    "SWA_FULL_TOKENS_RATIO": ("0.250", "decode", "swa_full_tokens_ratio", 0.25),
    "CHUNKED_PREFILL_SIZE": (" 04096 ", "prefill", "chunked_prefill_size", 4096),
    "LAYOUT": ("PD:4+4", "prefill", "tp_size", 4),
    "PREFILL_PORT": ("031000", "prefill", "port", 31000),
    "DECODE_PORT": ('"31001"', "decode", "port", 31001),
    "BOOTSTRAP_PORT": ("'8999'", "prefill", "disaggregation_bootstrap_port", 8999),
    "PREFILL_NCCL_PORT": ("30336 ", "prefill", "nccl_port", 30336),
    "DECODE_NCCL_PORT": (" 30436", "decode", "nccl_port", 30436),
    "DECODE_EXTRA_ARGS": ('"--stream-inter 3 --log-requests"', "decode", "stream_interval", 3),
    "PREFILL_EXTRA_ARGS": ("--crash-dump-folder='/a b/%c'", "prefill", "crash_dump_folder", "/a b/%c"),
}
# setting -> (as it is spelt, the router's own name, what it parses to)
ROUTER: dict[str, tuple[str, str, Any]] = {
    "ROUTER_PORT": ("029011", "port", 29011),
    "ROUTER_METRICS_PORT": ("'29012'", "prometheus_port", 29012),
    "REQUEST_TIMEOUT": ("1.5h", "request_timeout_secs", 5400),
    "DRAIN_TIMEOUT": ('"0.5m"', "shutdown_grace_period_secs", 30),
    "START_TIMEOUT": ("90 M", "worker_startup_timeout_secs", 5400 + 600),  # the guard's word comes first
    "PREFILL_PORT": ("031000", "prefill_urls", [["http://127.0.0.1:31000", 8999]]),
    "BOOTSTRAP_PORT": ("'8999'", "prefill_urls", [["http://127.0.0.1:31000", 8999]]),
    "DECODE_PORT": (" 31001", "decode_urls", ["http://127.0.0.1:31001"]),
    "ROUTER_EXTRA_ARGS": ('"--policy cache_aware"', "policy", "cache_aware"),
}


@cache
def _resolved(role: str) -> Mapping[str, Any]:
    environ = {f"DSV4_{name}": text for name, (text, *_) in ON_GPUS.items()}
    return resolve(make(environ, eight_cards(), Path("/run/dsv4-pd")), role)


@pytest.mark.parametrize("name", ON_GPUS)
def test_the_engine_takes_what_was_meant(name: str) -> None:
    _, role, own, value = ON_GPUS[name]
    assert _resolved(role)[own] == value


def test_a_server_on_the_cpu_takes_what_was_meant() -> None:
    environ = {"DSV4_PROFILE": "DEMO-CPU", "DSV4_LAYOUT": '"single"', "DSV4_CONTEXT_LENGTH": "0512"}
    got = resolve(make(environ, no_gpu()), "single")
    assert (got["device"], got["context_length"], got["served_model_name"]) == ("cpu", 768, "dsv4-demo")


def _parsed(router: str) -> Mapping[str, Any]:
    environ = {f"DSV4_{name}": text for name, (text, *_) in ROUTER.items()} | {"DSV4_ROUTER": f"'{router.upper()}'"}
    plan: Plan = make(environ, eight_cards())
    program = next(program for program in plan.programs if program.name == "router")
    python = VENVS / ("smg" if router == "smg" else "router") / "bin" / "python"
    answer = ask._router(plan, replace(program, argv=(str(python), *program.argv[1:])))
    assert answer.error is None, answer.error
    return answer.values


@pytest.mark.parametrize("router", ["smg", "sglang-router"])
def test_the_routers_take_what_was_meant(router: str) -> None:
    got = _parsed(router)
    assert {own: got[own] for _, own, _ in ROUTER.values()} == {own: value for _, own, value in ROUTER.values()}
