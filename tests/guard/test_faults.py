"""The fault table: each way in which a server can misbehave, under a real supervisord and the real guard.

Stub servers, because the real engine can't be made to do these on order. Every row names what must be seen.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from guard.appliance import QUICK, ROOT, Appliance, running

READY_BOUND, LEAVE_BOUND = 60.0, 2.0
pytestmark = pytest.mark.slow  # three minutes in all: the faults of real time

LOG = "[2026-11-29 15:20:11 TP0] "


def recovered(appliance: Appliance) -> None:
    appliance.wait_state("READY", seconds=READY_BOUND)
    assert appliance.complete() == 200


# --- starts that fail: behaviour of decode → exit code, words of the cause ------------------------------------------

FAILED_STARTS = {
    "exits at once": ({"exit_after": 0, "exit_code": 3}, 1, "decode exited with code 3; 3 restart(s) did not help"),
    "exits a while after each start": ({"exit_after": 1.5, "exit_code": 4}, 1, "decode exited with code 4"),
    "killed by a signal each time": (
        {"exit_after": 0.3, "signal": 9},
        1,
        "was ended by SIGKILL (by the kernel when memory ran out",
    ),
    "exit 137": ({"exit_after": 0.3, "exit_code": 137}, 1, "by the kernel when memory ran out"),
    "never ready": ({"ready_after": 999}, 1, "decode: start"),
    "no memory for KV": (
        {"ready_after": 99, "log": [[0.1, LOG + "Not enough memory. Please try to increase --mem-fraction-static."]]},
        2,
        "DSV4_DECODE_MEM_FRACTION",
    ),
    "no memory while it loads": (
        {
            "ready_after": 99,
            "log": [
                [
                    0.1,
                    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has "
                    "a total capacity of 94.97 GiB of which 512.00 MiB is free.",
                ]
            ],
        },
        2,
        "decode: out of GPU memory for 2.50 GiB, 512.00 MiB free (2.0 GiB short); lower the role's memory fraction",
    ),
    "a kernel's assertion while it warms up": (
        {"ready_after": 99, "log": [[0.1, "torch.AcceleratorError: CUDA error: device-side assert triggered"]]},
        1,
        "a kernel's own assertion failed before the first request",
    ),
    "no driver": (
        {"ready_after": 99, "log": [[0.1, "RuntimeError: Found no NVIDIA driver on your system."]]},
        70,
        "no NVIDIA driver",
    ),
    "settings differ from its peer's": (
        {"ready_after": 99, "log": [[0.1, "RuntimeError: Page size mismatch: 64 vs 256"]]},
        1,
        "DSV4_DECODE_EXTRA_ARGS",
    ),
    "generation hangs though ready": ({"generate": "hang"}, 1, "canary: link from prefill to decode"),
    "generation fails though ready": ({"generate": 500}, 1, "canary: decode: answered an error"),
}


@pytest.mark.parametrize(("behaviour", "code", "words"), FAILED_STARTS.values(), ids=FAILED_STARTS)
def test_a_start_that_fails(tmp_path: Path, behaviour: dict[str, object], code: int, words: str) -> None:
    limits = replace(QUICK, start_timeout=8) if behaviour.get("ready_after") == 999 else QUICK
    if "generate" in behaviour:
        limits = replace(limits, restart_limit=1, first_canary_timeout=5.5)
    with running(tmp_path, limits) as appliance:
        appliance.behave("decode", **behaviour)
        verdict = appliance.wait_end()
        assert (verdict["code"], words in verdict["cause"]) == (code, True), verdict
        assert "READY" not in [state for _, state in appliance.history]
        assert not appliance.leftovers()


def test_a_stall_is_told_from_slowness(tmp_path: Path) -> None:
    """Prefill is slower than the stall bound but logs; decode logs once and then nothing."""
    bar = "Loading safetensors checkpoint shards:  {}% Completed | 4/46"
    slow = [[i / 4, bar.format(i)] for i in range(80)]
    with running(tmp_path, replace(QUICK, stall_timeout=5, restart_limit=1)) as appliance:
        appliance.behave("prefill", ready_after=14, log=[[0, LOG + "Load weight begin. avail mem=90 GB"], *slow])
        appliance.behave(
            "decode", ready_after=99, log=[[0, LOG + "Load weight begin. avail mem=90 GB"], [0.2, bar.format(20)]]
        )
        appliance.wait(lambda: (appliance.health().get("roles", {}).get("prefill", {}).get("percent") or 0) > 2)
        verdict = appliance.wait_end()
        assert verdict["role"] == "decode"
        assert "DSV4_STALL_TIMEOUT), last seen in weights" in verdict["cause"]
        assert any("4/46" in line for line in verdict["lines"]), "the role's last lines go with the verdict"
        assert appliance.starts("prefill") == 1


def test_the_bootstrap_port_is_not_bound(tmp_path: Path) -> None:
    with running(tmp_path, replace(QUICK, restart_limit=1, router_timeout=3)) as appliance:
        appliance.behave("prefill", bootstrap=False)
        verdict = appliance.wait_end()
        assert (verdict["code"], "bootstrap port" in verdict["cause"]) == (1, True), verdict
        assert "READY" not in [state for _, state in appliance.history]


# --- deaths in READY ------------------------------------------------------------------------------------------------


def kill(*names: str) -> Callable[[Appliance], None]:
    def act(appliance: Appliance) -> None:
        pids = [appliance.pid(name) for name in names]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    return act


def say(role: str, line: str, **more: object) -> Callable[[Appliance], None]:
    def act(appliance: Appliance) -> None:
        appliance.behave(role, log=[[0, line]], only=appliance.pid(role), **more)  # the next incarnation says nothing

    return act


# what happens → which stubs are restarted
DEATHS = {
    "decode dies": (kill("decode"), {"decode"}),
    "prefill dies": (kill("prefill"), {"prefill"}),
    "router dies": (kill("router"), {"router"}),
    "both servers at once": (kill("prefill", "decode"), {"prefill", "decode"}),
    "everything at once": (kill("prefill", "decode", "router"), {"prefill", "decode", "router"}),
}


@pytest.mark.parametrize(("fault", "restarted"), DEATHS.values(), ids=DEATHS)
def test_a_death_in_ready(tmp_path: Path, fault: Callable[[Appliance], None], restarted: set[str]) -> None:
    with running(tmp_path) as appliance:
        appliance.wait_state("READY")
        before = {name: appliance.starts(name) for name in ("prefill", "decode", "router")}
        begun = time.monotonic()
        watcher = threading.Thread(target=lambda: appliance.wait_state("RECOVERING", seconds=5))
        watcher.start()
        fault(appliance)
        watcher.join()
        assert appliance.history[-1][1] != "READY"
        assert appliance.history[-1][0] - begun <= LEAVE_BOUND
        assert appliance.get("/readyz")[0] == 503 or appliance.state() == "READY"
        recovered(appliance)
        again = {name for name, count in before.items() if appliance.starts(name) > count}
        assert again == restarted
        assert appliance.health()["restarts"]["spent"] == 1


def test_one_dies_while_the_other_restarts(tmp_path: Path) -> None:
    with running(tmp_path) as appliance:
        appliance.wait_state("READY")
        appliance.behave("decode", ready_after=2)
        appliance.kill("decode")
        appliance.wait_state("RECOVERING")
        appliance.wait(lambda: appliance.starts("decode") == 2)
        appliance.kill("prefill")
        recovered(appliance)


def test_requests_in_flight_end_when_a_server_dies(tmp_path: Path) -> None:
    with running(tmp_path) as appliance:
        appliance.wait_state("READY")
        appliance.behave("decode", seconds=10)
        statuses: list[int] = []

        def ask() -> None:
            statuses.append(appliance.complete())

        clients = [threading.Thread(target=ask) for _ in range(16)]
        for client in clients:
            client.start()
        time.sleep(0.5)
        appliance.behave("decode")
        begun = time.monotonic()
        appliance.kill("decode")
        for client in clients:
            client.join()
        assert time.monotonic() - begun < 10
        appliance.wait_state("RECOVERING")
        assert statuses == [502] * 16
        recovered(appliance)


def test_the_guard_dies(tmp_path: Path) -> None:
    """The servers are left alone, and the restarts that were spent stay spent."""
    with running(tmp_path) as appliance:
        appliance.wait_state("READY")
        appliance.kill("decode")
        appliance.wait(lambda: appliance.starts("decode") == 2)
        appliance.wait_state("READY")
        say("decode", LOG + "Scheduler hit an exception: Traceback")(appliance)
        old, starts = appliance.pid("guard"), appliance.starts("prefill")
        os.kill(old, signal.SIGKILL)
        appliance.wait(lambda: appliance.health().get("state") != "READY" or appliance.pid("guard") != old)
        appliance.wait(lambda: appliance.health()["heartbeat_monotonic"] > time.monotonic() - 0.5)
        appliance.wait_state("READY")
        assert appliance.health()["restarts"]["spent"] == 1
        assert appliance.health()["roles"]["decode"]["restarts"] == 1, "the count goes on"
        assert (appliance.starts("prefill"), appliance.starts("decode")) == (starts, 2), "the old line is not news"


def test_the_guard_dies_while_it_stops_the_appliance(tmp_path: Path) -> None:
    with running(tmp_path) as appliance:
        appliance.wait_state("READY")
        appliance.behave("router", workers=[], names=[], ignore_term=True)
        guard = appliance.pid("guard")
        appliance.kill("router")
        appliance.wait_state("READY", "RECOVERING")
        appliance.stop()
        appliance.wait((tmp_path / "run/exit.json").exists)
        os.kill(guard, signal.SIGKILL)
        assert appliance.wait_end()["code"] == 0


def test_supervisord_dies(tmp_path: Path) -> None:
    """The guard ends what supervisord left and says so; `serve` then restarts it."""
    with running(tmp_path) as appliance:
        appliance.wait_state("READY")
        assert appliance.process is not None
        appliance.process.kill()
        appliance.wait(lambda: not appliance.leftovers(), seconds=20)
        assert appliance.health()["state"] == "RECOVERING"
        assert "supervisord" in appliance.health()["reason"]
        assert not (tmp_path / "run/exit.json").exists()
        appliance.start()
        recovered(appliance)


def test_the_model_changes_on_the_disk(tmp_path: Path) -> None:
    """A server that comes back has other weights than its peer: the peer loads them too; a new guard still knows."""
    model = tmp_path / "model"
    model.mkdir()
    (model / "model.safetensors").write_bytes(b"v1")
    with running(tmp_path, model_source=str(model)) as appliance:
        appliance.wait_state("READY")
        appliance.wait(lambda: all(stamp for _, stamp in appliance.health()["memory"]["models"].values()))
        (model / "model.safetensors").write_bytes(b"v2.")
        old = appliance.pid("guard")
        os.kill(old, signal.SIGKILL)
        appliance.wait(lambda: appliance.pid("guard") not in (old, 0))
        time.sleep(3)
        appliance.wait_state("READY")
        assert (appliance.starts("prefill"), appliance.starts("decode")) == (1, 1), "what runs is whole, and stays"
        appliance.kill("decode")
        appliance.wait(lambda: appliance.starts("prefill") == 2)
        recovered(appliance)
        assert appliance.starts("decode") == 2
        assert any("the model's files were changed" in event["reason"] for event in appliance.health()["events"])


# --- alive, but not well --------------------------------------------------------------------------------------------


def test_a_busy_server_is_never_restarted_and_probes_never_pile_up(tmp_path: Path) -> None:
    with running(tmp_path, replace(QUICK, stall_timeout=12, proof_timeout=60)) as appliance:
        appliance.wait_state("READY")
        appliance.behave("prefill", work=True, health_seconds=25, seconds=25)
        time.sleep(20)
        assert appliance.state() in ("READY", "DEGRADED")
        assert appliance.starts("prefill") == appliance.starts("decode") == 1
        probes = (tmp_path / "stubs/prefill.health-probes").read_text()
        assert probes.count("+") - probes.count("-") <= 1


def test_a_hung_scheduler_behind_a_good_ready(tmp_path: Path) -> None:
    """/ready says 200, tokens stand still, nothing is generated."""
    with running(tmp_path, replace(QUICK, canary_timeout=5.5)) as appliance:
        appliance.wait_state("READY")
        appliance.behave("decode", generate="hang", health=503)
        appliance.wait_state("DEGRADED", "RECOVERING", seconds=40)
        appliance.wait_state("RECOVERING", seconds=40)
        appliance.wait(lambda: appliance.starts("decode") == 2)
        appliance.behave("decode")
        recovered(appliance)
        assert (appliance.starts("prefill"), appliance.starts("decode")) == (1, 2), "only the failing server"


def under_load(appliance: Appliance, clients: int = 3) -> tuple[threading.Event, dict[int, int]]:
    """Clients that keep asking until told to stop; what they were answered, and how often."""
    stop, answers = threading.Event(), dict[int, int]()

    def ask() -> None:
        while not stop.wait(0.2):
            status = appliance.complete(20)
            answers[status] = answers.get(status, 0) + 1

    for _ in range(clients):
        threading.Thread(target=ask, daemon=True).start()
    return stop, answers


CUTS: dict[str, tuple[dict[str, object], dict[str, object]]] = {
    "each request is aborted by decode after a while": ({}, {"generate": 503, "seconds": 1}),
    "prefill computes and cannot hand over": ({"handover": 60}, {"generate": "hang"}),
}


@pytest.mark.parametrize("clients", [0, 3])
@pytest.mark.parametrize(("prefill", "decode"), CUTS.values(), ids=CUTS)
def test_a_link_that_carries_nothing(
    tmp_path: Path, prefill: dict[str, object], decode: dict[str, object], clients: int
) -> None:
    """Both say that they are ready, and count aborted requests as finished ones: that proves nothing."""
    with running(tmp_path) as appliance:
        appliance.wait_state("READY")
        appliance.behave("prefill", **prefill)
        appliance.behave("decode", **decode)
        stop, answers = under_load(appliance, clients)
        appliance.wait_state("RECOVERING", seconds=appliance.config.canary_interval + 2 * QUICK.canary_timeout + 10)
        stop.set()
        assert "canary: " in appliance.health()["reason"]
        assert 200 not in answers
        appliance.behave("prefill")
        appliance.behave("decode")
        recovered(appliance)


def test_ready_that_keeps_saying_no(tmp_path: Path) -> None:
    """The engine's own answer after one failed /health, with DSV4_STALL_TIMEOUT out of reach."""
    with running(tmp_path) as appliance:
        appliance.wait_state("READY")
        appliance.behave("prefill", ready=503, health=503)
        took = appliance.wait(lambda: appliance.health()["restarts"]["spent"] == 1, seconds=40)
        assert QUICK.unready_timeout - 2 <= took < QUICK.stall_timeout / 2
        assert any("prefill: /ready says no for 10 s" in event["reason"] for event in appliance.health()["events"])
        appliance.behave("prefill")
        recovered(appliance)
        assert (appliance.starts("prefill"), appliance.starts("decode")) == (2, 1)


def test_a_busy_server_that_says_no_is_waited_for(tmp_path: Path) -> None:
    with running(tmp_path) as appliance:
        appliance.wait_state("READY")
        appliance.behave("prefill", ready=503, health=503, work=True)
        time.sleep(QUICK.unready_timeout + 8)
        assert appliance.starts("prefill") == 1
        appliance.behave("prefill")
        recovered(appliance)
        assert appliance.health()["restarts"]["spent"] == 0


def test_a_compiling_server_that_says_no_is_waited_for_within_its_bound(tmp_path: Path) -> None:
    limits = replace(QUICK, unready_timeout=3, compile_timeout=25)
    with running(tmp_path, limits) as appliance:
        appliance.behave("decode", child="compiler")
        begun = time.monotonic()
        appliance.wait_state("READY")
        appliance.behave("decode", child="compiler", ready=503, health=503)
        appliance.wait(lambda: appliance.health()["restarts"]["spent"] == 1)
        assert 25 - 3 <= time.monotonic() - begun <= 25 + 15
        assert any("a compiler has run" in event["reason"] for event in appliance.health()["events"])
        appliance.behave("decode")
        recovered(appliance)


@pytest.mark.parametrize(
    ("role", "how"),
    [("prefill", {"ready": "hang"}), ("decode", {"ready": "hang"}), ("prefill", {"bootstrap": "hang"})],
    ids=["prefill", "decode", "bootstrap"],
)
def test_a_probe_that_is_not_answered_while_requests_are(tmp_path: Path, role: str, how: dict[str, object]) -> None:
    """Longer than the bound of silence: canaries come through, so there is nothing to fix."""
    with running(tmp_path) as appliance:
        appliance.wait_state("READY")
        appliance.behave(role, **how)
        begun, codes = time.monotonic(), set()
        appliance.wait_state("DEGRADED", seconds=10)
        while time.monotonic() - begun < QUICK.silent_timeout + 6:
            codes.add((appliance.get("/readyz")[0], appliance.complete()))
            assert appliance.state() in ("READY", "DEGRADED")
            time.sleep(0.2)
        assert codes == {(200, 200)}
        appliance.behave(role)
        recovered(appliance)
        assert (appliance.starts("prefill"), appliance.starts("decode")) == (1, 1)


@pytest.mark.parametrize(
    ("name", "bound"), [("prefill", QUICK.silent_timeout), ("decode", QUICK.silent_timeout), ("router", 10)]
)
def test_a_stopped_program_is_replaced_after_its_bound(tmp_path: Path, name: str, bound: float) -> None:
    """kill -STOP of the process that answers: it refuses nothing and answers nothing."""
    with running(tmp_path) as appliance:
        appliance.wait_state("READY")
        appliance.kill(name, signal.SIGSTOP)
        appliance.wait_state("DEGRADED", seconds=10)
        took = appliance.wait(lambda: appliance.health()["restarts"]["spent"] == 1, seconds=bound + 15)
        assert took > bound - 5, "slow is not dead"
        recovered(appliance)
        assert [n for n in ("prefill", "decode", "router") if appliance.starts(n) > 1] == [name]


def test_requests_that_prefill_holds_end_when_decode_dies(tmp_path: Path) -> None:
    """Prefill would wait for DSV4_LINK_TIMEOUT, and the router with it."""
    with running(tmp_path) as appliance:
        appliance.wait_state("READY")
        appliance.behave("prefill", handover=60)
        appliance.behave("decode", seconds=60)
        statuses: list[int] = []
        clients = [threading.Thread(target=lambda: statuses.append(appliance.complete(40))) for _ in range(8)]
        for client in clients:
            client.start()
        time.sleep(0.5)
        begun = time.monotonic()
        appliance.kill("decode")
        for client in clients:
            client.join()
        assert time.monotonic() - begun < 15
        assert statuses == [502] * 8
        appliance.behave("prefill")
        appliance.behave("decode")
        recovered(appliance)
        assert (appliance.starts("prefill"), appliance.starts("decode")) == (1, 2)


def test_paused_and_back_without_a_restart(tmp_path: Path) -> None:
    with running(tmp_path) as appliance:
        appliance.wait_state("READY")
        appliance.behave("decode", ready=503)
        assert appliance.wait_state("RECOVERING") <= 5.0, "a probe every quarter of a second"
        appliance.wait(lambda: "/ready says no" in appliance.health()["reason"])
        appliance.behave("decode")
        recovered(appliance)
        assert appliance.starts("decode") == 1


def test_a_router_whose_view_stays_wrong(tmp_path: Path) -> None:
    with running(tmp_path, replace(QUICK, router_timeout=3)) as appliance:
        appliance.wait_state("READY")
        appliance.blind_router(appliance.pid("router"))
        appliance.wait_state("RECOVERING", seconds=40)
        recovered(appliance)
        assert appliance.starts("router") == 2
        assert appliance.starts("decode") == 1


def test_a_router_that_takes_the_returned_server_in_late_is_waited_for(tmp_path: Path) -> None:
    """It answers 503 at once meanwhile: no reason to restart a pair that is well."""
    with running(tmp_path) as appliance:
        appliance.wait_state("READY")
        appliance.behave("router", workers=[appliance.prefill, appliance.decode], names=["prefill", "decode"], lag=3)
        appliance.kill("decode")
        appliance.wait_state("RECOVERING")
        recovered(appliance)
        assert [appliance.starts(name) for name in ("prefill", "decode", "router")] == [1, 2, 1]


@pytest.mark.parametrize("kind", ["setsid", "forked"])
def test_children_of_a_dead_server_are_ended(tmp_path: Path, kind: str) -> None:
    with running(tmp_path) as appliance:
        appliance.behave("decode", child=kind)
        appliance.wait_state("READY")
        child = int((tmp_path / "stubs/decode.child").read_text())
        appliance.behave("decode")
        appliance.kill("decode")
        appliance.wait_state("RECOVERING")
        recovered(appliance)
        assert not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text().split()[2]


def test_the_main_process_outlives_its_scheduler(tmp_path: Path) -> None:
    """/ready says 200 and no line is logged; the kernel tells."""
    with running(tmp_path) as appliance:
        appliance.behave("decode", child="scheduler")
        appliance.wait_state("READY")
        time.sleep(2)
        child = int((tmp_path / "stubs/decode.child").read_text())
        os.kill(child, signal.SIGKILL)
        assert appliance.wait_state("RECOVERING") <= LEAVE_BOUND
        recovered(appliance)
        assert (appliance.starts("prefill"), appliance.starts("decode")) == (1, 2)
        reasons = [event["reason"] for event in appliance.health()["events"] if event["to"] == "RECOVERING"]
        assert any("decode: its scheduler was ended by SIGKILL" in reason for reason in reasons), reasons
        assert not any("out of memory" in event["reason"] for event in appliance.health()["events"])


def test_no_fatal_line_does_anything_to_servers_that_serve(tmp_path: Path) -> None:
    """Each of the table, as a record of its own and bare: a client may make a server log almost any text."""
    table = tomllib.loads((ROOT / "config/signatures.toml").read_text())["fatal"]
    texts = [item["text"] for item in table if "text" in item] + EXAMPLES
    lines = [[0, prefix + text] for text in texts for prefix in (LOG, "")]
    with running(tmp_path) as appliance:
        appliance.wait_state("READY")
        appliance.behave("prefill", log=[*lines, [0, "the last line"]])
        appliance.wait(lambda: "the last line" in (tmp_path / "run/log/prefill.log").read_text())
        begun = time.monotonic()
        while time.monotonic() - begun < 5:
            assert appliance.state() == "READY"
            time.sleep(0.05)
        appliance.kill("prefill")  # a death soon after: the line may explain it, and no more
        appliance.wait_state("RECOVERING")
        recovered(appliance)
        assert (appliance.starts("prefill"), appliance.starts("decode")) == (2, 1)
        assert appliance.health()["restarts"]["spent"] == 1


EXAMPLES = [
    "Not enough memory. Please try to increase --mem-fraction-static.",
    "Found no NVIDIA driver on your system",
    "RuntimeError: Page size mismatch: 64 vs 256",
    "Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)",
    "torch.AcceleratorError: CUDA error: no kernel image is available",
    "[Errno 98] error while attempting to bind on address: address already in use",
]


def test_benign_lines_with_alarming_words(tmp_path: Path) -> None:
    lines = [
        LOG + "KV cache pool is full. Retract requests. #retracted_reqs: 1",
        LOG + "Receive: obj=GenerateReqInfo(text='Scheduler hit an exception: Not enough memory. SIGQUIT received.')",
        LOG + "Some requests timed out when bootstrapping",
        "user said: RuntimeError: Found no NVIDIA driver on your system",
    ]
    with running(tmp_path) as appliance:
        appliance.wait_state("READY")
        appliance.behave("decode", log=[[0, line] for line in lines])
        appliance.wait(lambda: "no NVIDIA driver" in (tmp_path / "run/log/decode.log").read_text())
        time.sleep(1)
        assert appliance.state() == "READY"
        assert appliance.starts("decode") == 1


def test_a_log_flood_across_rotation_hides_no_fatal_line(tmp_path: Path) -> None:
    flood = [[0, LOG + "INFO: " + "x" * 400 + str(i)] for i in range(3000)]  # 1.3 MB against 256 KB
    with running(tmp_path) as appliance:
        late = "RuntimeError: Found no NVIDIA driver on your system."
        appliance.behave("decode", ready_after=99, log=[*flood, [0, late]])
        verdict = appliance.wait_end()
        assert (verdict["code"], "no NVIDIA driver" in verdict["cause"]) == (70, True), verdict
        assert (tmp_path / "run/log/decode.log.1").exists()


def test_a_stolen_port_heals_when_it_is_free_again(tmp_path: Path) -> None:
    with running(tmp_path, replace(QUICK, restart_limit=6)) as appliance:
        appliance.wait_state("READY")
        with socket.socket() as thief:
            thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            appliance.kill("decode")
            appliance.wait(lambda: bind(thief, appliance.decode), seconds=20)
            thief.listen()
            appliance.wait(lambda: appliance.starts("decode") >= 3)
        recovered(appliance)


def bind(thief: socket.socket, port: int) -> bool:
    try:
        thief.bind(("127.0.0.1", port))
    except OSError:
        return False
    return True


# --- GPUs -----------------------------------------------------------------------------------------------------------


def test_a_gpu_lost_while_serving_ends_it_without_a_restart(tmp_path: Path) -> None:
    appliance = Appliance(tmp_path)
    appliance.gpus()
    try:
        appliance.start()
        appliance.wait_state("READY")
        appliance.gpus(error="Unknown Error")
        verdict = appliance.wait_end()
        assert (verdict["code"], "Unknown Error" in verdict["cause"]) == (70, True)
        assert appliance.starts("decode") == 1
    finally:
        appliance.end()


def test_gpu_memory_that_a_stranger_holds(tmp_path: Path) -> None:
    """Nothing is loaded on top of it; it ends with who holds it."""
    appliance = Appliance(tmp_path)
    appliance.gpus(used=40 * 10**9, pids=[4242])
    try:
        appliance.start()
        verdict = appliance.wait_end()
        assert (verdict["code"], "process 4242" in verdict["cause"]) == (75, True)
        assert appliance.starts("decode") == 0
    finally:
        appliance.end()


def test_gpu_memory_that_is_released_in_time(tmp_path: Path) -> None:
    appliance = Appliance(tmp_path, replace(QUICK, gpu_wait=30))
    appliance.gpus(used=40 * 10**9)
    try:
        appliance.start()
        appliance.wait(lambda: "still held" in str(appliance.health().get("reason")))
        appliance.gpus()
        recovered(appliance)
        assert appliance.health()["roles"]["decode"]["gpu_memory"][0]["used_gb"] == 0.0
    finally:
        appliance.end()


# --- SAFE, stop, publishing -----------------------------------------------------------------------------------------


def test_failed_starts_in_a_row_lead_to_safe_until_something_changes(tmp_path: Path) -> None:
    limits = replace(QUICK, restart_limit=1)
    for _ in range(3):
        with running(tmp_path, limits) as appliance:
            appliance.behave("decode", exit_after=0)
            assert appliance.wait_end()["code"] == 1
        for name in ("health.json", "exit.json"):
            (tmp_path / "run" / name).unlink(missing_ok=True)  # as `serve` does at each start
    before = appliance.starts("decode")
    with running(tmp_path, limits) as appliance:
        appliance.wait_state("SAFE")
        time.sleep(1)
        assert "3 starts in a row failed; the last: decode exited" in appliance.health()["reason"]
        assert (appliance.get("/livez")[0], appliance.get("/readyz")[0]) == (200, 503)
        assert appliance.starts("decode") == before, "nothing is loaded in SAFE"
        appliance.stop()
        assert appliance.wait_end()["code"] == 0
    for change in ({"safe_mode": "off"}, {"fingerprint": "another plan"}):
        for name in ("health.json", "exit.json"):
            (tmp_path / "run" / name).unlink(missing_ok=True)
        with running(tmp_path, limits, **change) as appliance:
            appliance.wait_state("READY")
            appliance.stop()
            appliance.wait_end()
    assert json.loads((tmp_path / "state/starts.json").read_text())["open"] == 0


def loading(appliance: Appliance) -> None:
    appliance.behave("decode", ready_after=60)
    appliance.wait_state("LOADING")


def serving(appliance: Appliance) -> None:
    appliance.wait_state("READY")


def recovering(appliance: Appliance) -> None:
    appliance.wait_state("READY")
    appliance.behave("decode", ready_after=60)
    appliance.kill("decode")
    appliance.wait_state("RECOVERING")


def ignoring_term(appliance: Appliance) -> None:
    for name in ("prefill", "decode"):
        appliance.behave(name, ignore_term=True)
    appliance.wait_state("READY")


@pytest.mark.parametrize("moment", [loading, serving, recovering, ignoring_term])
def test_a_stop_at_any_moment(tmp_path: Path, moment: Callable[[Appliance], None]) -> None:
    with running(tmp_path) as appliance:
        (tmp_path / "run/tmp/sglang_temp_file").write_text("x")
        moment(appliance)
        begun = time.monotonic()
        appliance.stop()
        verdict = appliance.wait_end()
        assert verdict["code"] == 0
        assert time.monotonic() - begun < 10, "an idle stop: under a second on an idle machine"
        assert not appliance.leftovers()
        assert not (tmp_path / "run/tmp").exists()
        assert json.loads((tmp_path / "state/starts.json").read_text())["open"] == 0, "a stop is no failed start"


def test_body_and_status_agree_in_every_state(tmp_path: Path) -> None:
    with running(tmp_path) as appliance:
        appliance.behave("decode", ready_after=1.5)
        states = set()
        while appliance.state() != "READY":
            try:
                status, body = appliance.get("/v1/health/ready")
            except OSError:
                continue
            states.add(body["state"])
            assert (status == 200) == body["ready"] == (body["state"] in ("READY", "DEGRADED"))
        assert {"LOADING"} <= states


def test_a_full_run_folder_does_not_stop_the_guard(tmp_path: Path) -> None:
    """health.json can't be replaced (the folder refuses new files), so it is overwritten in place."""
    with running(tmp_path) as appliance:
        appliance.wait_state("READY")
        (tmp_path / "run/health.new").mkdir()  # the write of the fresh file fails, as on a full tmpfs
        beat = appliance.health()["heartbeat"]
        appliance.wait(lambda: appliance.health().get("heartbeat", beat) > beat + 2, seconds=30)
        appliance.kill("decode")
        assert appliance.wait_state("RECOVERING") <= 5.0, "a probe every quarter of a second"
        recovered(appliance)
