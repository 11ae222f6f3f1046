"""Several members on the CPU: a dead one is named and missed by nobody; each path is proved by itself."""

from __future__ import annotations

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
from chaos import bounds
from chaos.clients import Clients
from dsv4_pd.run.guard.watch import tree
from dsv4_pd.run.ops.exposition import samples
from support.appliance import START_S, Appliance

pytestmark = [pytest.mark.pair, pytest.mark.slow]
ITALY, ROME = "What is the capital of Italy?", "The capital of Italy is Rome."


def running(root: Path, layout: str, router: str) -> Appliance:
    return Appliance(root, {"DSV4_LAYOUT": layout, "DSV4_RESTART_LIMIT": "20", "DSV4_ROUTER": router})


@pytest.fixture(scope="module", params=["sglang-router", pytest.param("smg", marks=pytest.mark.long)])
def replicas(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    with running(tmp_path_factory.mktemp("replicas"), "replicas:2x1", request.param) as found:
        yield found


@pytest.fixture(
    scope="module", params=[pytest.param(router, marks=pytest.mark.long) for router in ("smg", "sglang-router")]
)
def mesh(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    """Two prefills that hand over to one decode."""
    with running(tmp_path_factory.mktemp("mesh"), "pd:2x1+1", request.param) as found:
        yield found


def test_each_replica_is_proved_and_has_its_metrics(replicas: Appliance) -> None:
    health = replicas.health()
    print(f"READY: {after_start(health)}")
    assert list(health["roles"]) == ["single-1", "single-2", "router", "front"]
    assert [path["members"] for path in health["paths"]] == [["single-1"], ["single-2"]]
    assert all(path["proved_s_ago"] is not None for path in health["paths"])
    assert {replicas.chat(ITALY)["content"] for _ in range(4)} == {ROME}
    seen = samples(str(replicas.call("/metrics", base=replicas.ops)[1]))
    counted = {
        s.labels["member"]: s.value for s in seen if s.name == "dsv4_role_ready" and s.labels["role"] == "single"
    }
    assert counted == {"single-1": 1.0, "single-2": 1.0}
    tokens = {s.labels["member"] for s in seen if s.name == "sglang:realtime_tokens_total" and s.value > 0}
    assert tokens == {"single-1", "single-2"}, "both have answered"


def test_a_dead_replica_is_named_and_the_other_serves(replicas: Appliance) -> None:
    missed(replicas, "single-2", "served by single-1")


@pytest.mark.long
def test_a_hung_replica_is_restarted_and_the_other_serves(replicas: Appliance) -> None:
    before = replicas.pid("single-1")
    for pid in tree.members(before):
        os.kill(pid, signal.SIGSTOP)
    replicas.wait_for("DEGRADED", timeout=60)
    took = replicas.wait_until(lambda: replicas.health()["roles"]["single-1"]["pid"] != before, "another process", 180)
    print(f"hung: another process after {took:.0f} s, READY {replicas.wait_for('READY'):.0f} s later")
    assert replicas.chat(ITALY)["content"] == ROME


@pytest.mark.long
def test_verify_and_bench_take_replicas(replicas: Appliance, tmp_path: Path) -> None:
    measured(replicas, tmp_path, skipped={"kv_link", "equals_single"}, layout="replicas:2x1")


def test_nothing_is_left_when_replicas_stop(replicas: Appliance) -> None:
    assert replicas.stop() == 0
    assert replicas.leftovers() == []


def test_a_dead_prefill_is_named_and_the_other_hands_over(mesh: Appliance) -> None:
    health = mesh.health()
    print(f"READY: {after_start(health)}")
    assert list(health["roles"]) == ["prefill-1", "prefill-2", "decode", "router"]
    assert [path["members"] for path in health["paths"]] == [["prefill-1", "decode"], ["prefill-2", "decode"]]
    assert all(path["proved_s_ago"] is not None for path in health["paths"])
    assert {mesh.chat(ITALY)["content"] for _ in range(4)} == {ROME}
    shared = {name: asked_of(mesh, name) for name in mesh.members}
    assert len({json.dumps(each, sort_keys=True) for each in shared.values()}) == 1, shared
    missed(mesh, "prefill-1", "served by prefill-2 to decode")


@pytest.mark.long
def test_without_the_only_decode_nothing_is_served(mesh: Appliance) -> None:
    pids = {name: mesh.pid(name) for name in mesh.members}
    os.kill(pids["decode"], signal.SIGKILL)
    mesh.wait_for("RECOVERING", timeout=5)
    print(f"decode died: READY after {mesh.wait_for('READY'):.0f} s")
    assert mesh.chat(ITALY)["content"] == ROME
    assert [mesh.pid(name) == pid for name, pid in pids.items()] == [True, True, False]


@pytest.mark.long
def test_verify_and_bench_take_the_mesh(mesh: Appliance, tmp_path: Path) -> None:
    measured(mesh, tmp_path, skipped={"equals_single"}, layout="pd:2x1+1")


def test_nothing_is_left_when_the_mesh_stops(mesh: Appliance) -> None:
    assert mesh.stop() == 0
    assert mesh.leftovers() == []


def asked_of(appliance: Appliance, name: str) -> dict[str, Any]:
    """What prefill and decode must agree on, as a server itself resolved it."""
    _, info = appliance.call("/server_info", base=f"http://127.0.0.1:{appliance.members[name].port}")
    fields = ("model_path", "revision", "chat_template", "page_size", "kv_cache_dtype", "dtype", "context_length")
    return {field: info[field] for field in fields}


def after_start(health: dict[str, Any]) -> str:
    """Seconds that each program needed to be ready."""
    return ", ".join(f"{name} after {role['ready_after_s']} s" for name, role in health["roles"].items())


def measured(appliance: Appliance, folder: Path, *, skipped: set[str], layout: str) -> None:
    """`verify` certifies it, and `bench` measures it under its own name."""
    where = ["--url", appliance.ops, "--api-url", appliance.api]
    less = ["--no-start-single", "--bursts", "1", "--burst-size", "4", "--allow-restarts", "99"]
    paper = json.loads(called(appliance, "verify", *where, *less, "--json"))
    checks = {check["check"]: check for check in paper["launches"][0]}
    assert paper["verdict"] == "pass" and paper["appliance"]["layout"] == layout
    gone = {name for name, check in checks.items() if check["verdict"] == "skip"}
    assert gone == skipped | {"persistence", "gpu_memory", "numa"}, gone
    size = ["--concurrency", "2", "--requests", "8", "--input", "32", "--output", "8"]
    called(appliance, "bench", "sweep", *where, *size, "--out", str(folder / "run.jsonl"))
    head, point = (json.loads(line) for line in (folder / "run.jsonl").read_text().splitlines()[:2])
    assert head["appliance"]["layout"] == layout and point["failed"] == 0


def called(appliance: Appliance, *words: str) -> str:
    """The output of one of our commands."""
    command = [sys.executable, "-m", "dsv4_pd", *words]
    done = subprocess.run(command, capture_output=True, text=True, env=appliance.environ, timeout=START_S)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    return done.stdout


def missed(appliance: Appliance, name: str, served_by: str) -> None:
    """Kill a member under load: the state names it, the others answer, and it comes back alone, from its own budget."""
    before = {each: appliance.pid(each) for each in (*appliance.members, "router")}
    clients = Clients(appliance.ports["DSV4_PORT"], clients=2, seed=1)
    clients.learn()
    clients.start()
    time.sleep(3.0)
    died = time.monotonic()
    os.kill(before[name], signal.SIGKILL)
    noticed = appliance.wait_for("DEGRADED", timeout=5)
    reason, states, spent = appliance.health()["reason"], set[str](), 0
    while appliance.state() != "READY":
        assert time.monotonic() - died < START_S, appliance.health()
        health = appliance.health()
        states.add(health["state"])
        spent = max(spent, health["members"].get(name, {}).get("spent", 0))
        time.sleep(0.2)
    back = time.monotonic()
    time.sleep(3.0)
    clients.stop()
    health, asked = appliance.health(), clients.outcomes
    failed = [round(one.begun - died, 1) for one in asked.requests if one.failure]
    print(f"{name} died: DEGRADED after {noticed:.1f} s, READY after {back - died:.1f} s; "
          f"{len(asked.requests)} requests, failed: {dict(asked.errors)}, begun at {failed} s")  # fmt: skip
    assert reason.startswith(f"{name}: ") and served_by in reason, reason
    assert states <= {"DEGRADED"}, "never out of service"
    assert {each for each, pid in before.items() if appliance.pid(each) != pid} == {name}
    assert health["restarts"]["spent"] == 0 and spent >= 1
    bound = bounds.seconds(bounds.MEMBER)
    assert bound and not [at for at in failed if at > bound], "once the router knows, nobody notices"
    assert [one for one in asked.requests if died + bound < one.begun < back], "some were asked meanwhile"
    assert not asked.wrong and not asked.unfinished
