"""The hands over a world that a test makes: what is done, and what is left alone."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from dsv4_pd.run.guard.act import abort, hands
from dsv4_pd.run.guard.decide.states import Act, Action
from dsv4_pd.run.guard.senses.host import Host
from dsv4_pd.run.guard.watch import tree
from dsv4_pd.run.guard.world import World
from dsv4_pd.run.supervision import family
from dsv4_pd.run.supervision.rpc import Process
from guard.test_world import Probes, run, seeing


def acting(seen: World, probes: Probes) -> hands.Hands:
    return hands.Hands(seen, Host(seen, None), None, probes)  # type: ignore[arg-type]


def test_an_abort_goes_to_the_server_that_was_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, probes = seeing(tmp_path)
    sent: list[str] = []

    async def everything(_: object, url: str) -> None:
        sent.append(url)

    monkeypatch.setattr(abort, "everything", everything)
    monkeypatch.setattr(abort, "PAUSE_S", 0.0)

    async def act() -> None:
        acting(seen, probes).apply(Action(Act.ABORT, "prefill"))
        await asyncio.sleep(0.3)

    run(act())
    assert sent == [seen.config.servers[0].url]


def test_what_the_guard_ends_is_marked_before_it_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, probes = seeing(tmp_path)
    monkeypatch.setattr(tree, "kill_group", lambda _: None)
    monkeypatch.setattr(tree, "members", lambda _: frozenset[int]())
    run(acting(seen, probes)._kill("decode"))
    seen.servers["decode"].on_event("EXITED", time.monotonic(), 0, "was ended by SIGKILL (by the kernel)")
    assert "by the kernel" not in seen.observe().servers[1].exit


def test_workers_are_registered_with_the_servers_key(tmp_path: Path) -> None:
    seen, probes = seeing(tmp_path, api_key="k3y")
    run(acting(seen, probes)._register(""))
    assert [worker["api_key"] for worker in probes.registered] == ["k3y", "k3y"]


class Listed:
    """supervisord, as far as a start asks it. What it hides: that it refuses to start what runs."""

    def __init__(self, state: str) -> None:
        self.state, self.started = state, list[str]()

    async def processes(self) -> tuple[Process, ...]:
        return (Process("decode", self.state, 4321 if self.state == "RUNNING" else 0, 0),)

    async def start(self, name: str) -> None:
        self.started.append(name)


@pytest.mark.parametrize(
    ("state", "acts"), [("RUNNING", False), ("STARTING", False), ("EXITED", True), ("FATAL", True)]
)
def test_only_what_does_not_run_is_cleaned_up_after_and_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str, acts: bool
) -> None:
    """Processes that one program left behind may look like those of one that runs; its shared memory is in use."""
    seen, probes = seeing(tmp_path)
    supervisor, killed, cleaned = Listed(state), list[object](), list[str]()
    monkeypatch.setattr(family, "everyone", dict)
    monkeypatch.setattr(family, "leftovers", lambda *_: frozenset({4321}))
    monkeypatch.setattr(tree, "kill", killed.append)
    monkeypatch.setattr(Host, "clean_up_after", lambda _, name: cleaned.append(name))
    run(hands.Hands(seen, Host(seen, None), supervisor, probes)._start("decode"))  # type: ignore[arg-type]
    done = [supervisor.started, cleaned, killed]
    assert done == ([["decode"], ["decode"], [frozenset({4321})]] if acts else [[], [], []])


@pytest.mark.parametrize("deaths", [0, 1])
def test_the_kernel_cache_is_looked_over_before_a_server_starts_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deaths: int
) -> None:
    """Not before its first start: `serve` has just done it."""
    seen, probes = seeing(tmp_path)
    done: list[str] = []

    class Supervisord:
        async def processes(self) -> list[SimpleNamespace]:
            return [SimpleNamespace(name="decode", state="EXITED", pid=0)]

        async def start(self, name: str) -> None:
            done.append(f"start {name}")

    async def look() -> None:
        done.append("look")

    monkeypatch.setattr(family, "everyone", list)
    monkeypatch.setattr(family, "leftovers", lambda *_: frozenset[int]())
    monkeypatch.setattr(seen.compiles, "repair", look)
    seen.servers["decode"].deaths = deaths
    acts = hands.Hands(seen, Host(seen, None), Supervisord(), probes)  # type: ignore[arg-type]
    run(acts._start("decode"))
    assert done == ["look"] * deaths + ["start decode"]
