"""The administration of both routers is the guard's alone; what clients use stays as it is."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, cast

import pytest
from dsv4_pd.plan.guard.config import from_json
from dsv4_pd.run.guard.ask.probes import Probes
from dsv4_pd.run.guard.decide.states import Answer

from api.administration import CLIENT, Router, Worker, wait
from api.conftest import Routed
from api.fronts import ROUTERS
from api.guarded import Guarded

pytestmark = pytest.mark.pair

# Every route of either that changes or tells more than a client needs: from their binaries' route tables, and from the
# list that smg prints when it runs without keys. `x` is whatever: a key is asked for before it is looked up.
GUARDED = [
    ("GET", "/workers"), ("POST", "/workers"), ("GET", "/workers/x"), ("PUT", "/workers/x"), ("DELETE", "/workers/x"),
    ("PATCH", "/workers/x"), ("GET", "/get_loads"), ("POST", "/flush_cache"), ("POST", "/start_profile"),
    ("POST", "/stop_profile"), ("POST", "/heap_profile"), ("GET", "/v1/tokenizers"), ("POST", "/v1/tokenizers"),
    ("GET", "/v1/tokenizers/x"), ("GET", "/v1/tokenizers/x/status"), ("DELETE", "/v1/tokenizers/x"), ("GET", "/wasm"),
    ("POST", "/wasm"), ("DELETE", "/wasm/x"), ("POST", "/parse/function_call"), ("POST", "/parse/reasoning"),
]  # fmt: skip
# Of other versions, or behind a flag that is never set (--enable-mesh, --enable-rl): not there, or without function.
ABSENT = [
    ("POST", "/add_worker?url=http://192.0.2.1"), ("POST", "/remove_worker?url=http://192.0.2.1"),
    ("GET", "/list_workers"), ("GET", "/v1/rl/workers"), ("POST", "/workers/x/engine/flush_cache"),
    ("POST", "/engine/flush_cache"), ("POST", "/update_weights_from_disk"), ("POST", "/pause_generation"),
    ("POST", "/release_memory_occupation"), ("POST", "/abort_request"), ("POST", "/set_internal_state"),
    ("GET", "/ha/status"), ("GET", "/ha/workers"), ("GET", "/ha/config/x"), ("POST", "/ha/config"),
    ("POST", "/ha/rate-limit"), ("POST", "/ha/shutdown"), ("GET", "/server_info"), ("GET", "/openapi.json"),
]  # fmt: skip
# No flag closes these (docs/security.md): they tell that a router is here, and ask the servers in nobody's name.
TELLING = ("/health", "/liveness", "/readiness", "/v1/models", "/get_server_info", "/get_model_info", "/engine_metrics",
           "/health_generate", "/loads")  # fmt: skip
STRANGER_GONE_S = 10.0  # a probe, a removal; smg lists a worker that leaves for up to five seconds more


@pytest.mark.parametrize(("method", "path"), GUARDED, ids=lambda part: part)
def test_no_client_administers(routed: Routed, method: str, path: str) -> None:
    running, key = routed
    for used in (None, key, "guard", "x" * 43):
        got = running.call(method, path, {} if method != "GET" else None, used)
        assert got.status_code in (401, 403, 404), (used, got.text)


@pytest.mark.parametrize(("method", "path"), ABSENT, ids=lambda part: part)
def test_nothing_else_does_either(routed: Routed, method: str, path: str) -> None:
    running, key = routed
    for used in (None, key):
        got = running.call(method, path, {} if method != "GET" else None, used)
        assert got.status_code in (401, 403, 404, 405, 422, 503), (used, got.text)
    assert running.process.poll() is None and len(running.workers()) == 2


def test_the_guard_does(routed: Routed) -> None:
    running, _ = routed
    assert [worker["worker_type"] for worker in running.workers()].count("prefill") == 1
    assert running.call("POST", "/flush_cache", {}, running.control_key).status_code == 200


def test_clients_are_served_as_usual(routed: Routed) -> None:
    running, key = routed
    assert running.complete(key).status_code == 200
    if key:
        assert running.complete(None).status_code == running.complete("another").status_code == 401
        assert running.complete(running.control_key).status_code == 401, "the guard's key is no client's"


def test_what_no_flag_closes_gives_nothing_away(routed: Routed) -> None:
    running, key = routed
    for path in TELLING:
        said = running.call("GET", path)
        assert running.control_key not in said.text and CLIENT not in said.text
    if key:
        assert "stub" not in running.call("GET", "/get_server_info").text, "asked in nobody's name"


def test_a_body_that_fits_no_context_is_refused_before_it_is_read(routed: Routed) -> None:
    """sglang-router has no JSON for it; what is in the limit passes."""
    running, key = routed
    argv = next(program.argv for program in running.plan.programs if program.name == "router")
    limit = int(argv[argv.index("--max-payload-size") + 1])
    for size, expected in ((limit - 200, 200), (limit + 200, 413)):
        got = running.call("POST", "/v1/completions", {"model": "stub", "prompt": "x" * size}, key)
        assert got.status_code == expected, got.text[:200]
    if running.plan.settings.router == "smg":
        assert got.json()["error"]["code"] == "request_body_too_large"


def test_the_keys_stand_in_no_list_of_processes_and_no_log(routed: Routed) -> None:
    running, _ = routed
    shown = (
        Path(f"/proc/{running.process.pid}/cmdline").read_bytes()
        + Path(f"/proc/{running.process.pid}/environ").read_bytes()
    )
    shown += (running.plan.paths.run / "router.log").read_bytes()
    assert running.control_key.encode() not in shown and CLIENT.encode() not in shown


# --- the guard's own list -------------------------------------------------------------------------------------------


def guard_of(running: Router) -> tuple[Probes, str, tuple, str | None]:  # type: ignore[type-arg]
    config = from_json(next(file.text for file in running.plan.files if file.path.name == "guard.json"))
    return Probes(config.api_key, running.control_key), config.router_url, config.servers, config.api_key


def look(running: Router) -> tuple[Answer, str]:
    async def ask() -> tuple[Answer, str]:
        probes, url, servers, _ = guard_of(running)
        try:
            return await probes.router(url, servers)
        finally:
            await probes.close()

    return asyncio.run(ask())


def repair(running: Router) -> tuple[str, ...]:
    async def act() -> tuple[str, ...]:
        probes, url, servers, key = guard_of(running)
        try:
            return await probes.reconcile(url, servers, key)
        finally:
            await probes.close()

    return asyncio.run(act())


def test_a_stranger_is_seen_and_put_out_before_it_hears_another_prompt(routed: Routed) -> None:
    running, key = routed
    assert look(running) == (Answer.YES, "")
    with Worker("EVIL") as evil:
        body = {"url": evil.url, "worker_type": "decode"}
        assert running.call("POST", "/workers", body, running.control_key).status_code == 202
        wait(lambda: "EVIL" in running.complete(key).text, 20)
        answer, why = look(running)
        assert (answer, evil.url in why) == (Answer.NO, True)
        assert repair(running) == (evil.url,)
        heard = evil.prompts()
        took = wait(lambda: look(running)[0] is Answer.YES, STRANGER_GONE_S)
        answers = [running.complete(key) for _ in range(20)]
        assert [got.status_code for got in answers] == [200] * 20, took
        assert evil.prompts() == heard and not any("EVIL" in got.text for got in answers)


def test_a_half_in_the_other_halfs_place_is_a_stranger_too(routed: Routed) -> None:
    running, _ = routed
    with Worker("prefill-again") as again:
        body = {"url": again.url, "worker_type": "prefill", "bootstrap_port": 9}
        assert running.call("POST", "/workers", body, running.control_key).status_code == 202
        wait(lambda: look(running)[0] is Answer.NO, 20)
        repair(running)
        wait(lambda: look(running)[0] is Answer.YES, STRANGER_GONE_S)


def test_our_own_that_was_put_out_comes_back_with_its_key(routed: Routed) -> None:
    """Without it the router asks the server in nobody's name: a flush of its cache is refused."""
    running, key = routed
    ours = f"http://127.0.0.1:{running.plan.settings.decode_port}"
    decode = next(worker for worker in running.workers() if worker["url"] == ours)
    assert running.call("DELETE", f"/workers/{decode['id']}", key=running.control_key).status_code == 202
    wait(lambda: look(running)[0] is Answer.NO, 20)

    def back() -> bool:
        repair(running)
        return look(running)[0] is Answer.YES and running.complete(key).status_code == 200

    wait(back, 30, lambda: json.dumps(running.workers()))
    flushed = running.call("POST", "/flush_cache", {}, running.control_key)
    assert (flushed.status_code, flushed.json()["workers_flushed"]) == (200, 2), flushed.text


# --- the whole guard ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ROUTERS)
def test_the_guard_corrects_the_list_within_seconds(tmp_path: Path, kind: str) -> None:
    """A worker that a bug put in, and one of ours that it took out: never READY meanwhile, and said in the log."""
    appliance = Guarded(tmp_path, kind)
    try:
        appliance.start()
        appliance.wait_state("READY")
        running = Router(appliance.router, cast("Any", appliance.process), "of-this-run", cast("Any", None))
        with Worker("EVIL") as evil:
            body = {"url": evil.url, "worker_type": "decode"}
            assert running.call("POST", "/workers", body, "of-this-run").status_code == 202
            log = tmp_path / "run/log/guard.log"
            appliance.wait(lambda: f"removed {evil.url}" in log.read_text(), seconds=10)
            appliance.wait_state("READY", seconds=20)
            heard = evil.prompts()
            assert all("EVIL" not in running.complete().text for _ in range(20)) and evil.prompts() == heard
            assert "HTTP Request" not in log.read_text(), "no line for each probe"
            assert any(evil.url in event["reason"] for event in appliance.health()["events"])
        ours = f"http://127.0.0.1:{appliance.decode}"
        decode = next(worker for worker in running.workers() if worker["url"] == ours)
        assert running.call("DELETE", f"/workers/{decode['id']}", key="of-this-run").status_code == 202
        appliance.wait(lambda: appliance.state() != "READY", seconds=10)
        appliance.wait_state("READY", seconds=30)
        assert appliance.starts("decode") == appliance.starts("prefill") == 1, "nothing was restarted for it"
    finally:
        appliance.end()
