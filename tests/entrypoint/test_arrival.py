"""arrival: `serve`'s download, with its real process and ops port, before any server is started."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dsv4_pd.doctor import preflight
from dsv4_pd.doctor.catalogue import examine
from dsv4_pd.doctor.checks.gpus import memory_fit
from dsv4_pd.errors import SettingsError, TemporaryError
from dsv4_pd.plan.around.ahead import Ahead
from dsv4_pd.plan.disk import folders
from dsv4_pd.plan.plan import Plan
from dsv4_pd.plan.situation import Situation
from dsv4_pd.plan.survey import survey_facts
from dsv4_pd.run import files, serve
from dsv4_pd.run.arrival import Arrival
from dsv4_pd.run.console.base import TextConsole
from dsv4_pd.run.download import order
from dsv4_pd.run.supervision import sweep
from support.hub import COMMIT, Hub, running, tiny
from support.plans import eight_cards, make, no_gpu
from support.ports import free_ports


@pytest.fixture
def hub() -> Iterator[Hub]:
    with running(Hub("org/tiny", tiny())) as stub:
        yield stub


@pytest.fixture
def environ(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    hf = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_DOWNLOAD_TIMEOUT": "2"}
    for name, value in hf.items():
        monkeypatch.setenv(name, value)
    values = {"DSV4_PROFILE": "demo-cpu", "DSV4_MODEL": "org/tiny", "DSV4_OPS_PORT": str(free_ports(1)[0]),
              "DSV4_DOWNLOAD_STALL_TIMEOUT": "2", "DSV4_RESTART_LIMIT": "2", "PATH": os.environ["PATH"]}  # fmt: skip
    return {**values, **hf}


@pytest.fixture
def plan(environ: dict[str, str], tmp_path: Path) -> Plan:
    return ready(environ, tmp_path)


def ready(environ: dict[str, str], tmp_path: Path) -> Plan:
    found = make(environ, no_gpu(), run=tmp_path / "run")
    folders.make(found.paths)
    sweep.begin(found.paths.run)
    return found


def ask(plan: Plan, path: str) -> tuple[int, Any]:
    request = f"http://127.0.0.1:{plan.settings.ops_port}{path}"
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def beside(act: Callable[[], None]) -> threading.Thread:
    """Act while the arrival has the main thread, which signals go to."""
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    return thread


def until(true: Callable[[], bool], seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def health(plan: Plan) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(plan.paths.health.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def snapshot(tmp_path: Path) -> Path:
    return tmp_path / "hf" / "hub" / "models--org--tiny" / "snapshots" / COMMIT


def arrive(plan: Plan, log: Path) -> bool:
    with log.open("w", encoding="utf-8") as out, TextConsole(plan, out) as console:
        return Arrival(plan, console).run()


def test_the_ops_port_tells_how_far_it_is(hub: Hub, plan: Plan, tmp_path: Path) -> None:
    hub.faults.bytes_per_s = 40_000.0
    seen: dict[str, tuple[int, Any]] = {}

    def look() -> None:
        until(lambda: " left" in health(plan).get("reason", ""))
        for path in ("/status", "/readyz", "/livez", "/metrics", "/", "/load"):
            seen[path] = ask(plan, path)
        hub.faults.bytes_per_s = None

    thread = beside(look)
    assert arrive(plan, tmp_path / "log")
    thread.join(10)
    status, text = seen["/status"]
    document = json.loads(text)
    assert (status, document["state"], document["serving"]) == (200, "DOWNLOADING", False)
    found = document["download"]
    assert 0 < found["percent"] < 100 and found["total_bytes"] > found["done_bytes"] > 0 and found["bytes_per_s"] > 0
    assert "weights" in document["about"] and document["model"] == "dsv4-demo"
    assert [seen[path][0] for path in ("/readyz", "/livez", "/metrics", "/", "/load")] == [503, 200, 200, 200, 200]
    metrics = seen["/metrics"][1]
    assert 'dsv4_state{state="DOWNLOADING"} 1' in metrics
    for name in ("total_bytes", "done_bytes", "bytes_per_second", "remaining_seconds"):
        assert f"\ndsv4_download_{name} " in metrics, name
    assert (snapshot(tmp_path) / "config.json").exists()
    said = (tmp_path / "log").read_text(encoding="utf-8")
    assert "DOWNLOADING: " in said
    assert not plan.paths.health.exists(), "the guard's file, not this one's, from here on"
    assert sweep.find(plan.paths.run) == ()
    environ = {"HF_HOME": str(tmp_path / "hf")}
    assert not order.needed("org/tiny", None, environ, plan.paths.state)


def test_the_servers_of_a_pinned_commit_open_what_arrives(environ: dict[str, str], tmp_path: Path) -> None:
    """The programs that `plan` shows before the fetch are those that `serve` starts after it."""
    pinned = {**environ, "DSV4_MODEL_REVISION": COMMIT, "DSV4_CONTEXT_LENGTH": "1024"}  # the engine gives it 2048
    before = ready(pinned, tmp_path)
    assert arrive(before, tmp_path / "log")
    after = ready(pinned, tmp_path)
    assert before.programs == after.programs
    assert all(f"model-path: {snapshot(tmp_path)}\n" in one.files[0].text for one in after.programs[:2])


def test_a_dead_process_is_started_again_and_goes_on(hub: Hub, plan: Plan, tmp_path: Path) -> None:
    hub.faults.bytes_per_s = 60_000.0

    def kill() -> None:
        until(lambda: hub.sent > 60_000)
        (pid,) = sweep.find(plan.paths.run)
        os.kill(pid, signal.SIGKILL)
        hub.faults.bytes_per_s = None

    thread = beside(kill)
    assert arrive(plan, tmp_path / "log")
    thread.join(10)
    assert "it is restarted and resumes" in (tmp_path / "log").read_text(encoding="utf-8")
    assert hub.sent < 1.5 * sum(len(data) for name, data in hub.files.items() if hub.is_large(name))


def send(hub: Hub, number: signal.Signals) -> None:
    until(lambda: hub.sent > 20_000)
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_and_leaves_nothing_running(
    hub: Hub, plan: Plan, tmp_path: Path, number: signal.Signals
) -> None:
    hub.faults.bytes_per_s = 20_000.0
    handler = signal.getsignal(number)
    thread = beside(lambda: send(hub, number))
    assert not arrive(plan, tmp_path / "log")
    thread.join(10)
    assert sweep.find(plan.paths.run) == () and signal.getsignal(number) is handler
    assert not snapshot(tmp_path).exists() and list(tmp_path.glob("hf/hub/*/blobs/*.part"))
    files.clean(plan.paths)


def test_each_cause_ends_with_its_own_kind_of_error(hub: Hub, plan: Plan, tmp_path: Path) -> None:
    hub.faults.gated = True
    with pytest.raises(SettingsError, match="org/tiny is gated"):
        arrive(plan, tmp_path / "log")
    hub.faults.gated = False
    hub.faults.status["hub"] = [(503, {}, b"")] * 99
    with pytest.raises(TemporaryError, match=r"answers 503, and no new byte for 2 s \(DSV4_DOWNLOAD_STALL_TIMEOUT\)"):
        arrive(plan, tmp_path / "log")


class Listed(Hub):
    """A Hub that lists its weights as so many times as large as they are."""

    times = 1

    def sibling(self, name: str) -> dict[str, Any]:
        found = super().sibling(name)
        if name.endswith(".safetensors"):
            found["size"] *= self.times
            found["lfs"]["size"] *= self.times
        return found


def test_what_is_told_before_the_weights_come(hub: Hub, plan: Plan, tmp_path: Path) -> None:
    with (tmp_path / "log").open("w", encoding="utf-8") as out, TextConsole(plan, out) as console:
        ahead = Arrival(plan, console).look()
    shards = sum(len(data) for name, data in hub.files.items() if name.endswith(".safetensors"))
    assert ahead == Ahead(shards, {"model_type": "tiny"})
    assert hub.sent == 0 and not snapshot(tmp_path).exists()
    assert sweep.find(plan.paths.run) == () and not plan.paths.health.exists()


@pytest.mark.parametrize("config,words", [
    (b'{"model_type": "deepseek_v4", "num_hidden_layers": "43x"}', "num_hidden_layers is '43x'"),
    (b"<html>", "config.json is no JSON"),
])  # fmt: skip
def test_a_config_that_says_nothing_is_refused_before_the_weights_come(
    hub: Hub, plan: Plan, tmp_path: Path, config: bytes, words: str
) -> None:
    hub.files["config.json"] = config
    with (tmp_path / "log").open("w", encoding="utf-8") as out, TextConsole(plan, out) as console:
        with pytest.raises(SettingsError, match=words):
            Arrival(plan, console).look()
    assert hub.sent == 0


@pytest.mark.parametrize("times,refused", [(1, False), (2_000_000, True)])
def test_serve_fetches_nothing_that_the_cards_cannot_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: Plan, hub: Hub, times: int, refused: bool
) -> None:
    """`plan` is a CPU's, so that nothing but the survey has cards: eight of them."""
    hub.__class__, hub.times = Listed, times  # type: ignore[attr-defined]
    config = {"model_type": "tiny", "max_position_embeddings": 1 << 20}
    hub.files["config.json"] = json.dumps(config).encode()
    given = {"DSV4_MODEL": "org/tiny", "DSV4_PROFILE": "rtx-pro-6000-8x"}
    monkeypatch.setattr(serve, "survey", lambda environ, machine, ahead=None: survey_facts(given, eight_cards(), ahead))
    asked: list[Situation] = []

    def refuse(situation: Situation) -> None:
        asked.append(situation)
        situation.planned()
        preflight.raise_failures(examine(situation, (memory_fit.CHECK,)))

    monkeypatch.setattr(preflight, "refuse", refuse)
    situation = survey_facts(given, eight_cards())
    if refused:
        with pytest.raises(SettingsError, match="GiB of weights on each of 4 cards"):
            serve._bring_model(plan, situation, {})
        assert hub.sent == 0
    else:
        assert serve._bring_model(plan, situation, {})
        assert (snapshot(tmp_path) / "config.json").exists()
    assert [one.around.config for one in asked] == [config]


def test_a_setting_in_the_way_ends_the_start_with_its_name(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = replace(plan, environ={**plan.environ, "HF_ENDPOINT": "hf.example", "ALL_PROXY": "socks5://p:1"})
    with pytest.raises(SettingsError) as refused:
        arrive(wrong, tmp_path / "log")
    assert [problem.subject for problem in refused.value.problems] == ["HF_ENDPOINT", "ALL_PROXY"]
