"""What the README promises, on the real pair: requests through the router, a killed server, a clean end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dsv4_pd.plan.guard import config as guard_config
from dsv4_pd.plan.guard.config import ServerConfig
from dsv4_pd.plan.guard.warm_up import body, classes
from dsv4_pd.run.guard.ask.probes import Probes
from dsv4_pd.run.guard.prove.warm_up import WarmUp
from support.appliance import Appliance

pytestmark = pytest.mark.pair

WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the current weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
TWO_CITIES = {
    "messages": [{"role": "user", "content": "What is the weather in Paris and in Tokyo?"}],
    "tools": [WEATHER],
}
THINKING = {
    "messages": [{"role": "user", "content": "What is the capital of France?"}],
    "chat_template_kwargs": {"thinking": True},
}


@pytest.fixture(scope="module")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    with Appliance(tmp_path_factory.mktemp("appliance")) as running:
        yield running


def test_banner_says_what_runs_and_its_curl_line_works(appliance: Appliance) -> None:
    appliance.wait_until(lambda: "try it:" in appliance.log.read_text(), "banner", 5)
    text = appliance.log.read_text()
    lines = [line.split("| ", 1)[1] for line in text.splitlines() if "dsv4-pd | " in line]
    at = next(i for i, line in enumerate(lines) if "try it:" in line)
    done = subprocess.run(["sh", "-c", "\n".join(lines[at + 1 : at + 3])], capture_output=True, text=True, check=False)
    assert json.loads(done.stdout)["choices"][0]["message"]["content"], done
    banner = "\n".join(lines[:at])
    assert "profile demo-cpu" in banner and "prefill" in banner and str(appliance.ports["DSV4_PORT"]) in banner


def test_each_server_ran_its_warm_up_before_ready(appliance: Appliance) -> None:
    told = appliance.health()["roles"]
    for name in ("prefill", "decode"):
        found = told[name]["warm_up"]
        assert found["done"] == found["classes"] >= 4 and not found["failed"] and not found["left"], found
        assert 0 < found["seconds"] < 120


def test_the_engine_takes_every_class_that_a_card_s_warm_up_sends(appliance: Appliance) -> None:
    """The CPU's own warm-up sends four of them. Both servers get what the guard sends past the router."""
    kinds = [kind for kind in classes(256, 2048, 4) if kind.count < 4]
    assert {"sampled answer with min_p", "answer under a schema", "prompt of several chunks"} <= {k.name for k in kinds}
    config = json.loads((appliance.root / "run/guard.json").read_text())
    servers = [ServerConfig(**{**one, "gpus": ()}) for one in config["servers"]]

    async def send() -> dict[str, str]:
        probes = Probes(None)
        sender = WarmUp(guard_config.from_json(json.dumps(config)), {}, probes, lambda *_: None)
        try:
            return {kind.name: await sender._send(tuple(servers), body(kind, 0)) for kind in kinds}
        finally:
            await probes.close()

    assert set(asyncio.run(send()).values()) == {""}


def test_an_answer_is_coherent_and_the_same_each_time(appliance: Appliance) -> None:
    answers = {appliance.chat("What is the capital of France?")["content"] for _ in range(3)}
    assert answers == {"The capital of France is Paris."}


def test_the_context_is_usable_to_its_last_token(appliance: Appliance) -> None:
    """One limit: what the setting says is listed, served exactly, and refused one token above, with that number."""

    def complete(words: int, answer: int) -> tuple[int, dict[str, Any]]:
        body = {"model": "dsv4-demo", "prompt": " a" * words, "max_tokens": answer, "ignore_eos": True}
        return appliance.call("/v1/completions", body)

    limit = appliance.call("/v1/models")[1]["data"][0]["max_model_len"]
    assert limit == 4096, "config/profiles/demo-cpu.toml"
    for port in ("DSV4_PREFILL_PORT", "DSV4_DECODE_PORT"):
        listed = appliance.call("/v1/models", base=f"http://127.0.0.1:{appliance.ports[port]}")[1]["data"][0]
        assert listed["max_model_len"] == limit, "the servers' own word"
    assert f" context  {limit} tokens" in appliance.log.read_text(), "the banner"
    tokens = [complete(words, 1)[1]["usage"]["prompt_tokens"] for words in (100, 101)]
    assert tokens[1] == tokens[0] + 1, "one word, one token"
    fits = limit - 2 - tokens[0] + 100
    status, answer = complete(fits, 2)
    assert (status, answer.get("usage", answer)["total_tokens"]) == (200, limit)
    for words, most in ((fits + 1, 2), (fits, 3), (limit + 200, 1)):
        status, answer = complete(words, most)
        assert (status, str(limit) in str(answer)) == (400, True), answer


def test_reasoning_stands_apart(appliance: Appliance) -> None:
    status, answer = appliance.call("/v1/chat/completions", {"model": "dsv4-demo", "temperature": 0, **THINKING})
    message = answer["choices"][0]["message"]
    assert status == 200 and "Paris" in message["content"] and message["reasoning_content"]
    assert "think>" not in message["content"] + message["reasoning_content"]


def test_streamed_reasoning_stands_apart(appliance: Appliance) -> None:
    deltas = [chunk["choices"][0]["delta"] for chunk in appliance.stream(THINKING) if chunk["choices"]]
    thought = "".join(delta.get("reasoning_content") or "" for delta in deltas)
    said = "".join(delta.get("content") or "" for delta in deltas)
    assert thought and "Paris" in said and "think>" not in thought + said


def test_parallel_tool_calls(appliance: Appliance) -> None:
    _, answer = appliance.call("/v1/chat/completions", {"model": "dsv4-demo", "temperature": 0, **TWO_CITIES})
    choice = answer["choices"][0]
    calls = [(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in choice["message"]["tool_calls"]]
    assert choice["finish_reason"] == "tool_calls"
    assert calls == [("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Tokyo"})]


def test_streamed_parallel_tool_calls(appliance: Appliance) -> None:
    arguments: dict[int, str] = {}
    content = ""
    for chunk in appliance.stream(TWO_CITIES):
        delta = chunk["choices"][0]["delta"] if chunk["choices"] else {}
        content += delta.get("content") or ""
        for call in delta.get("tool_calls") or ():
            arguments[call["index"]] = arguments.get(call["index"], "") + (call["function"].get("arguments") or "")
    assert [json.loads(text) for _, text in sorted(arguments.items())] == [{"city": "Paris"}, {"city": "Tokyo"}]
    assert "DSML" not in content


def test_the_kv_cache_crosses_from_prefill_to_decode(appliance: Appliance) -> None:
    name = "sglang:kv_transfer_total_mb_sum"
    before = appliance.metrics("prefill").get(name, 0.0)
    appliance.chat("What is NIXL?")
    assert appliance.metrics("prefill").get(name, 0.0) > before
    assert "Prefill batch" not in (appliance.root / "run" / "log" / "decode.log").read_text()


def test_ops_port_and_health_agree(appliance: Appliance) -> None:
    for path in ("/livez", "/readyz", "/v1/health/live", "/v1/health/ready"):
        assert appliance.call(path, base=appliance.ops)[0] == 200
    status, body = appliance.call("/status", base=appliance.ops)
    assert status == 200 and body["state"] == "READY" and set(body["roles"]) == {"prefill", "decode", "router", "front"}
    done = subprocess.run([sys.executable, "-m", "dsv4_pd", "health"], env=appliance.environ, capture_output=True,
                          text=True, check=False)  # fmt: skip
    assert (done.returncode, done.stdout.split(":")[0]) == (0, "READY")


def test_nothing_leaves_loopback(appliance: Appliance) -> None:
    """The demo's public ports listen on loopback too; tests/pair/test_listeners.py sees them from another network."""
    listeners = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout.splitlines()
    ours = [line.split() for line in listeners if any(f"pid={pid}," in line for pid in appliance.pids())]
    public = {int(words[3].rsplit(":", 1)[1]) for words in ours if not words[3].startswith("127.0.0.1:")}
    assert not public, ours
    assert len(ours) >= 7


def test_a_killed_decode_is_noticed_and_heals_unaided(appliance: Appliance) -> None:
    before = appliance.pid("decode")
    os.kill(before, signal.SIGKILL)
    killed = time.monotonic()
    appliance.wait_until(lambda: appliance.state() != "READY", "leaving READY", 10)
    assert time.monotonic() - killed <= 2.0
    assert appliance.call("/readyz", base=appliance.ops)[0] == 503
    appliance.wait_for("READY")
    assert appliance.pid("decode") != before
    assert appliance.chat("What is the capital of Italy?")["content"] == "The capital of Italy is Rome."


def test_a_second_appliance_is_refused_before_it_loads(appliance: Appliance) -> None:
    other = dict(appliance.environ, DSV4_RUN_DIR=str(appliance.root / "other"))
    done = subprocess.run([sys.executable, "-m", "dsv4_pd", "demo"], env=other, capture_output=True, text=True,
                          timeout=30, check=False)  # fmt: skip
    assert done.returncode == 75
    assert "DSV4_PORT" in done.stderr and str(appliance.ports["DSV4_PORT"]) in done.stderr


def test_zz_ctrl_c_leaves_nothing_behind(appliance: Appliance) -> None:
    shm = set(Path("/dev/shm").iterdir())
    assert appliance.stop(signal.SIGINT) == 0
    assert appliance.leftovers() == []
    assert set(Path("/dev/shm").iterdir()) <= shm
    run = appliance.root / "run"
    assert {path.name for path in run.iterdir()} <= {"lock", "log", "ours", "plugins", "tmp"}
    assert not any((run / "tmp").iterdir())
    assert "exit 0" in Path(appliance.log).read_text().splitlines()[-1]
