"""`verify` certifies the real pair, and for each of these breakages the right check fails."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from dsv4_pd.verify import catalogue, reference
from dsv4_pd.verify.base import Outcome
from dsv4_pd.verify.run import run
from prove.conftest import KEY, subject
from prove.front import Passing, front
from support.appliance import START_S, Appliance

pytestmark = pytest.mark.pair
# What a machine without GPUs, a single NUMA node and a process outside Docker can't answer.
UNANSWERABLE = {"persistence", "gpu_memory", "numa"}


def test_verify_passes_on_the_demo(appliance: Appliance, key_file: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dsv4_pd", "verify", "--url", appliance.ops, "--api-url", appliance.api,
               "--api-key-file", str(key_file), "--json", "--receipt", str(tmp_path / "receipt.json")]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, env=appliance.environ, timeout=START_S + 300)
    paper = json.loads(done.stdout)
    checks = {check["check"]: check for check in paper["launches"][0]}
    bad = {name: check for name, check in checks.items() if check["verdict"] == "fail"}
    assert done.returncode == 0 and not bad, json.dumps(bad, indent=1)
    assert set(checks) == set(catalogue.NAMES)
    skipped = {name for name, check in checks.items() if check["verdict"] == "skip"}
    assert skipped == UNANSWERABLE, {name: checks[name]["evidence"] for name in skipped}
    assert paper["verdict"] == "pass" and json.loads((tmp_path / "receipt.json").read_text()) == paper
    facts = paper["appliance"]
    assert facts["versions"]["sglang"] and facts["settings_hash"] and facts["machine"]["cpus"]
    assert KEY not in done.stdout


def chat(change: Callable[[dict[str, Any]], None], *, only_streams: bool = False) -> Callable[[Passing], None]:
    """A change to each message or delta of a chat answer."""

    def after(passing: Passing) -> None:
        if passing.path != "/v1/chat/completions" or passing.status != 200:
            return
        if not passing.body.startswith(b"data:"):
            if not only_streams:
                data = json.loads(passing.body)
                change(data["choices"][0]["message"])
                passing.text = json.dumps(data)
            return
        passing.text = "\n".join(changed(line) for line in passing.text.splitlines()) + "\n"

    def changed(line: str) -> str:
        if not line.startswith("data: {"):
            return line
        data = json.loads(line[6:])
        for choice in data.get("choices", []):
            change(choice["delta"])
        return "data: " + json.dumps(data)

    return after


def merge_thought(message: dict[str, Any]) -> None:
    message["content"] = (message.pop("reasoning_content", None) or "") + (message.get("content") or "")


def lose_second_call(message: dict[str, Any]) -> None:
    message["tool_calls"] = [c for i, c in enumerate(message.get("tool_calls") or []) if (c.get("index") or i) == 0]


def lose_name(message: dict[str, Any]) -> None:
    for call in message.get("tool_calls") or []:
        if call["function"].get("name"):
            call["function"]["name"] = "none"


def lose_text(message: dict[str, Any]) -> None:
    message["content"] = ""


def lose_thought(message: dict[str, Any]) -> None:
    if message.get("reasoning_content"):
        message["reasoning_content"] = message["reasoning_content"][1:]


def cut(passing: Passing) -> None:
    passing.text = passing.text.replace("data: [DONE]", "")


def loose_json(passing: Passing) -> None:
    if b"json_schema" in passing.request:
        passing.text = passing.text.replace("colour", "color")


def forget_digit(passing: Passing) -> None:
    if b"Remember" in passing.request:
        passing.text = re.sub(r"code is (\d)", "code is x", passing.text)


def outage_for_long(passing: Passing) -> None:
    if passing.status == 400:
        passing.status = 500


def small_window(passing: Passing) -> None:
    if len(passing.request) > 8000:
        passing.status, passing.text = 413, "too large"


def everybody(passing: Passing) -> None:
    passing.headers["Authorization"] = f"Bearer {KEY}"


def mute_every_third() -> Callable[[Passing], None]:
    turn = iter(range(10**6))

    def after(passing: Passing) -> None:
        if next(turn) % 3 == 2:
            chat(lose_text)(passing)

    return after


def status(**changes: Any) -> Callable[[Passing], None]:
    def after(passing: Passing) -> None:
        if passing.path == "/status":
            passing.text = json.dumps({**json.loads(passing.body), **changes})

    return after


def role_not_ready(passing: Passing) -> None:
    if passing.path == "/status":
        data = json.loads(passing.body)
        data["roles"]["decode"] |= {"ready": False, "detail": "/ready says no"}
        passing.text = json.dumps(data)


def lines_without(pattern: str) -> Callable[[Passing], None]:
    def after(passing: Passing) -> None:
        if passing.path == "/metrics":
            passing.text = "\n".join(line for line in passing.text.splitlines() if not re.search(pattern, line))

    return after


def still_link(passing: Passing) -> None:
    if passing.path == "/metrics":
        passing.text = re.sub(r"^(dsv4_kv_link_\w+_total) .*$", r"\1 7", passing.text, flags=re.MULTILINE)


def one_compile(passing: Passing) -> None:
    if passing.path == "/metrics":
        passing.text = re.sub(r'^dsv4_compiles\{kind="cubin"\} 0$', 'dsv4_compiles{kind="cubin"} 1', passing.text,
                              flags=re.MULTILINE)  # fmt: skip


FAILED_PLUGIN = {"plugins": ["x"], "missing": ["x in decode: left no record"]}
# name of the breakage: (check that must fail, checks that must still pass, change, where: api, ops or before)
BREAKAGES: dict[str, tuple[str, tuple[str, ...], Callable[[Passing], None], str]] = {
    "thoughts land in the answer": ("reasoning", ("generation",), chat(merge_thought), "api"),
    "streams lose the first letter of a thought":
        ("reasoning", ("generation",), chat(lose_thought, only_streams=True), "api"),
    "the second call is lost": ("parallel_tool_calls", ("tool_call",), chat(lose_second_call), "api"),
    "calls lose their name": ("tool_call", ("generation",), chat(lose_name), "api"),
    "streams end without [DONE]": ("generation", ("too_long",), cut, "api"),
    "answers come back empty now and then": ("empty_content", (), mute_every_third(), "api"),
    "the schema is not kept": ("structured", ("generation",), loose_json, "api"),
    "a needle is lost": ("needle", ("generation",), forget_digit, "api"),
    "too long a prompt gives 500": ("too_long", ("generation",), outage_for_long, "api"),
    "long prompts are refused": ("long_prompt", ("generation",), small_window, "before"),
    "the key is not enforced": ("auth", ("generation",), everybody, "before"),
    "decode is not ready": ("programs", ("metrics",), role_not_ready, "ops"),
    "a plugin failed": ("kernel_hooks", ("programs",), status(proof=FAILED_PLUGIN), "ops"),
    "decode has no metrics": ("metrics", ("programs",), lines_without('role="decode"'), "ops"),
    "nothing crosses the link": ("kv_link", ("metrics",), still_link, "ops"),
    "a kernel was compiled": ("compiles", ("metrics",), one_compile, "ops"),
}  # fmt: skip


@pytest.mark.parametrize("name", BREAKAGES)
def test_breakage_fails_the_right_check(appliance: Appliance, name: str) -> None:
    check, healthy, change, where = BREAKAGES[name]
    target = appliance.ops if where == "ops" else appliance.api
    with front(target, **{"before" if where == "before" else "after": change}) as url:
        seen = subject(appliance, **{"ops" if where == "ops" else "api": url})
        answers = {a.check.name: a.result for a in run(catalogue.chosen((check, *healthy), ()), seen, lambda _: None)}
    assert answers[check].verdict is Outcome.FAIL, answers[check]
    assert answers[check].next_step
    assert {name: answers[name].verdict for name in healthy} == dict.fromkeys(healthy, Outcome.PASS), answers


@pytest.fixture(scope="module")
def broken(appliance: Appliance, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    """A real pair whose prefill sends the wrong KV blocks, and whose decode holds half of the KV that it should."""
    spoiled = {"DSV4_API_KEY": KEY, "DSV4_CPU_PD_CORRUPT": "1", "DSV4_DECODE_EXTRA_ARGS": "--max-total-tokens 8192"}
    with Appliance(tmp_path_factory.mktemp("broken"), spoiled) as one:
        yield one


def test_real_damage_is_found(appliance: Appliance, broken: Appliance) -> None:
    """Health can't see either: the state is READY."""
    good = reference.ask(subject(appliance).api, 0)
    seen = subject(broken)
    key = reference.key_of(seen.status)
    (broken.root / "state" / "single-answers.json").write_text(json.dumps({key: good}))
    names = ("programs", "kv_capacity", "equals_single", "needle", "kv_link")
    answers = {a.check.name: a.result for a in run(catalogue.chosen(names, ()), seen, lambda _: None)}
    verdicts = {name: result.verdict.value for name, result in answers.items()}
    assert verdicts == {
        "programs": "pass",
        "kv_capacity": "fail",
        "equals_single": "fail",
        "needle": "fail",
        "kv_link": "pass",
    }
    assert "decode holds 8,192" in answers["kv_capacity"].evidence


def test_compile_on_disk_is_counted(appliance: Appliance) -> None:
    """A file that a JIT would leave in the cache while serving."""
    folder = Path(json.loads((appliance.root / "run" / "guard.json").read_text())["cache_dir"])
    made = folder / "jit" / "fresh.so"
    made.parent.mkdir(parents=True, exist_ok=True)
    made.touch()
    try:
        check = catalogue.chosen(("compiles",), ())[0]
        begun = time.monotonic()
        while (result := check.run(subject(appliance))).verdict is not Outcome.FAIL and time.monotonic() - begun < 40:
            time.sleep(1)
        assert result.verdict is Outcome.FAIL and "1 shared_object" in result.evidence
    finally:
        made.unlink()


def test_another_host_says_so() -> None:
    """Nothing listens there."""
    command = [sys.executable, "-m", "dsv4_pd", "verify", "--url", "http://127.0.0.1:9"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "no appliance answers at http://127.0.0.1:9" in done.stderr and "--url" in done.stderr
