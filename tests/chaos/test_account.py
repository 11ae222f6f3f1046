"""What counts as a failure while READY, and what does not."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import pytest
from dsv4_pd.settings.layout import PAIR, parse
from support.appliance import Appliance
from support.members import of_servers, suits

from chaos import bounds, faults, who
from chaos.__main__ import tell, under_load
from chaos.account import Disturbance, Kind, Request, Timeline, hangs, kind_of, sums
from chaos.broken import Broken
from chaos.clients import QUESTIONS, Clients, Outcomes
from chaos.run import Order, Report, Run, Watcher

# READY, a fault at 10 that is noticed at 12, recovery until 40
TIMELINE = Timeline([(0.0, "READY"), (12.0, "RECOVERING"), (40.0, "READY"), (60.0, "DEGRADED"), (61.0, "READY")])
FAULTS = (Disturbance(10.0, 10.0, 2.0),)


@pytest.mark.parametrize(
    ("begun", "ended", "failure", "kind"),
    [
        (1.0, 2.0, "", Kind.READY),
        (1.0, 2.0, "503", Kind.READY),  # nothing was wrong: this one counts
        (9.0, 11.0, "stream cut", Kind.IN_FLIGHT),
        (9.0, 11.0, "", Kind.READY),  # an answer is an answer
        (10.5, 11.5, "502", Kind.DETECTING),
        (11.0, 13.0, "502", Kind.NOT_SERVING),
        (20.0, 21.0, "503", Kind.NOT_SERVING),
        (39.0, 41.0, "", Kind.NOT_SERVING),
        (41.0, 42.0, "503", Kind.READY),  # READY again, and lying
        (60.5, 60.7, "500", Kind.READY),  # DEGRADED serves
    ],
)
def test_kinds(begun: float, ended: float, failure: str, kind: Kind) -> None:
    assert kind_of(Request(begun, ended, failure), TIMELINE, FAULTS) is kind


def test_a_state_that_is_late_excuses_nothing_beyond_the_bound() -> None:
    lying = Timeline([(0.0, "READY")])
    assert kind_of(Request(11.9, 12.0, "502"), lying, FAULTS) is Kind.DETECTING
    assert kind_of(Request(12.1, 12.2, "502"), lying, FAULTS) is Kind.READY


@pytest.mark.parametrize(
    ("begun", "ended", "hung"),
    [(0.0, 8.0, False), (50.0, 79.0, False), (50.0, 81.0, True), (5.0, 26.0, False), (11.0, 45.0, True)],
)
def test_hanging(begun: float, ended: float, hung: bool) -> None:
    assert hangs(Request(begun, ended, "x"), FAULTS) is hung


def test_a_fault_that_is_noticed_late_lets_requests_wait_for_it() -> None:
    cut = Disturbance(10.0, 100.0, 70.0)
    assert not hangs(Request(20.0, 180.0, "503"), (cut,))
    assert hangs(Request(20.0, 186.0, "503"), (cut,))


def test_the_rate_is_of_requests_while_ready() -> None:
    asked = [Request(1.0, 2.0)] * 999 + [Request(1.0, 2.0, "503")] + [Request(20.0, 21.0, "503")] * 500
    found = sums(asked, TIMELINE, FAULTS)
    assert (found.ready, found.failure_rate, found.failed[Kind.NOT_SERVING]) == (1000, 0.001, 500)


def test_no_request_is_no_success() -> None:
    assert sums([], TIMELINE, FAULTS).failure_rate == 1.0


def test_time_outside_the_states() -> None:
    assert TIMELINE.outside({"READY"}, 70.0) == pytest.approx(29.0)


@pytest.mark.parametrize(("begun", "ended"), [(9.0, 11.0), (10.5, 10.6), (11.0, 11.9)])
def test_a_fault_that_no_request_may_notice_excuses_none(begun: float, ended: float) -> None:
    hostile = (Disturbance(10.0, 70.0, None),)
    serving = Timeline([(0.0, "READY")])
    assert kind_of(Request(begun, ended, "503"), serving, hostile) is Kind.READY
    assert kind_of(Request(begun, ended, "503"), serving, (*hostile, Disturbance(10.0, 10.0, 2.0))) is not Kind.READY
    assert hangs(Request(20.0, 51.0, "x"), hostile), "a hostile request that takes long lets no other wait"


def test_every_bound_is_documented() -> None:
    assert all(fault.bound in bounds.table() for fault in faults.FAULTS)
    assert bounds.seconds(bounds.NOTHING) is None
    assert bounds.seconds(bounds.DEATH) == 2.0 and bounds.seconds(bounds.SILENCE) == 15.0
    assert set(bounds.table()) == {fault.bound for fault in faults.FAULTS} | {bounds.MEMBER}, "and used"


def test_what_a_client_or_a_dead_guard_does_excuses_nothing() -> None:
    silent = {"inject_log", "huge_prompt", "hostile_pattern", "flood_connections", "stop_guard", "jump_clock"}
    assert {fault.name for fault in faults.FAULTS if fault.bound == bounds.NOTHING} >= silent


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_each_kind_comes_once_before_any_comes_often(seed: int) -> None:
    table = faults.FAULTS
    drawn = list(islice(faults.deal(random.Random(seed), table), 2 * len(table)))
    assert sorted(fault.name for fault in drawn[: len(table)]) == sorted(fault.name for fault in table)
    assert [fault.name for fault in drawn] == [
        fault.name for fault in islice(faults.deal(random.Random(seed), table), 2 * len(table))
    ]


class Garbage(BaseHTTPRequestHandler):
    """A server that answers 200 and nonsense."""

    body = b""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("body", [b"", b"null", b"{}", b'{"choices": []}', b"\xff", b"data: {\n\ndata: [DONE]\n\n"])
def test_an_answer_that_cannot_be_read_is_wrong_and_the_client_goes_on(body: bytes) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Garbage,), {"body": body}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    load = Clients(server.server_address[1], clients=1, seed=1)
    load._answers = dict.fromkeys(QUESTIONS, "x")
    load.start()
    deadline = time.monotonic() + 20
    while len(load.outcomes.requests) < 4 and time.monotonic() < deadline:
        time.sleep(0.05)
    load.stop()
    server.shutdown()
    assert len(load.outcomes.requests) >= 4, "the client's thread did not end"
    assert all(request.failure for request in load.outcomes.requests)
    assert len(load.outcomes.wrong) + sum(load.outcomes.errors.values()) == len(load.outcomes.requests)


def test_a_health_file_that_cannot_be_read_changes_no_state(tmp_path: Path) -> None:
    """On a full disk it is overwritten in place; that must not excuse what fails meanwhile."""
    states = iter(["READY", "none", "none", "RECOVERING"])

    class Stub:
        def state(self) -> str:
            return next(states, "RECOVERING")

    watcher = Watcher(Stub())  # type: ignore[arg-type]
    thread = threading.Thread(target=watcher.run)
    thread.start()
    time.sleep(0.5)
    watcher.end.set()
    thread.join()
    assert [state for _, state in watcher.timeline.changes] == ["READY", "RECOVERING"]


def told(ready: int = 100, **changed: object) -> int:
    record = Outcomes([Request(1.0, 2.0)] * ready)
    report = Report(done=[Disturbance(10.0, 10.0, 2.0)] * 2, exit_code=0)
    for name, value in changed.items():
        setattr(report if hasattr(report, name) else record, name, value)
    return tell(report, record, TIMELINE, "seed 1")


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({}, 0),
        ({"ready": 99}, 1),  # too few to say anything of one in a thousand
        ({"exit_code": 1}, 1),
        ({"broken": ["a stranger heard a prompt"]}, 1),
        ({"never_back": ["x"]}, 1),
        ({"leftovers": ["process 7"]}, 1),
        ({"wrong": ["x"]}, 1),
        ({"unfinished": 1}, 1),
    ],
)
def test_what_makes_a_run_fail(changed: dict[str, object], code: int) -> None:
    assert told(**changed) == code  # type: ignore[arg-type]


@pytest.fixture
def appliance_of(tmp_path: Path) -> Callable[[str], Appliance]:
    """One that is not started; what it hides: everything but its members."""
    return lambda layout: Appliance(tmp_path, {"DSV4_LAYOUT": layout})


@pytest.mark.parametrize(
    ("layout", "asked", "wanted"),
    [
        ("pd", ("decode", "guard"), {("decode", "guard")}),
        ("pd:2x1+1", ("prefill", "decode"), {("prefill-1", "decode"), ("prefill-2", "decode")}),
        ("replicas:2x1", ("decode",), {("single-1",), ("single-2",)}),
        ("replicas:2x1", ("prefill", "decode"), {("single-1", "single-2"), ("single-2", "single-1")}),
        ("single", ("prefill", "decode"), {("single",)}),
    ],
)
def test_a_fault_befalls_members_of_any_layout(
    appliance_of: Callable[[str], Appliance], layout: str, asked: tuple[str, ...], wanted: set[tuple[str, ...]]
) -> None:
    appliance = appliance_of(layout)
    assert {tuple(who.drawn(appliance, random.Random(seed), *asked)) for seed in range(20)} == wanted


def test_a_fault_of_a_pair_draws_nothing_more_than_it_did(appliance_of: Callable[[str], Appliance]) -> None:
    """So that a seed goes on meaning the same run."""
    choose = random.Random(1)
    who.drawn(appliance_of("pd"), choose, "prefill", "decode")
    assert choose.random() == random.Random(1).random()


def test_a_member_s_ports_are_its_own(appliance_of: Callable[[str], Appliance]) -> None:
    appliance = appliance_of("pd:2x1+2x1")
    assert appliance.members["decode-2"].port == appliance.ports["DSV4_DECODE_PORT"] + 10
    assert len(of_servers(appliance.members)) == 10


def test_a_port_of_a_further_member_is_no_other_program_s() -> None:
    ports = {"DSV4_PREFILL_PORT": 20000, "DSV4_PREFILL_NCCL_PORT": 20101, "DSV4_PORT": 20302}
    assert suits(parse("replicas:2x1"), ports)
    assert not suits(parse("replicas:2x1"), {**ports, "DSV4_PORT": 20010}), "single-2's"
    assert not suits(parse("replicas:2x1"), {**ports, "DSV4_PREFILL_NCCL_PORT": 20010}), "single-2's"
    assert not suits(parse("replicas:2x1"), {**ports, "DSV4_PREFILL_PORT": 65530}), "there is none"


class Serving:
    """An appliance that always serves; what it hides: everything but the loop."""

    def __init__(self, port: int) -> None:
        self.ports, self.process = {"DSV4_PORT": port}, SimpleNamespace(poll=lambda: None)
        self.layout, self.members = PAIR, ("prefill", "decode")

    def health(self) -> dict[str, object]:
        return {"state": "READY", "heartbeat_monotonic": time.monotonic()}

    def state(self) -> str:
        return "READY"


def test_the_loop_does_each_fault_counts_enough_and_keeps_what_was_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    def break_it(*_: object) -> str:
        raise Broken("a stranger heard a prompt")

    table = (faults.Fault(1, lambda *_: "nothing", bounds.NOTHING), faults.Fault(1, break_it, bounds.STRANGER))
    left_out = faults.Fault(1, break_it, bounds.DEATH, needs=lambda _: False)
    monkeypatch.setattr(faults, "FAULTS", (*table, left_out))
    monkeypatch.setattr("chaos.run.STEADY_S", 0.1)
    monkeypatch.setattr("chaos.run.EACH", 5)
    monkeypatch.setattr("chaos.__main__.EACH", 5)
    monkeypatch.setattr(Clients, "_ask", lambda *_, stream: ("ok", "x", ""))
    serving = Serving(9)
    run = Run(serving, Clients(9, 2, 1), Watcher(serving))  # type: ignore[arg-type]
    under_load(run, Order(1, 1, 2, clients=2), None)
    report, load, watcher = run.report, run.clients, run.watcher
    assert [fault.bound_s for fault in report.done] in ([None, 5.0], [5.0, None])
    assert report.broken == ["a stranger heard a prompt"] and not report.never_back
    found = sums(load.outcomes.requests, watcher.timeline, report.done)
    assert found.ready >= 10 and found.failure_rate == 0 and load.outcomes.unfinished == 0
    assert tell(report, load.outcomes, watcher.timeline, "seed 1") == 1, "what was broken fails the run"
