"""What a new guard takes over from one that died: the budget, the counts, and who has served."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dsv4_pd.run.guard.decide.policy import next_state
from dsv4_pd.run.guard.run import Guard, until_set
from dsv4_pd.run.states import StateName
from guard.appliance import Appliance

MEMORY: dict[str, Any] = {
    "charges": [10.0, 20.0, 30.0],
    "failures": 3,
    "fingerprint": "plan",
    "deaths": {"prefill": 0, "decode": 3, "router": 0},
    "served": {"prefill": 77, "decode": 78},
    "models": {},
    "shared_memory": {},
}


def resumed(folder: Path, supervisord: int, **changes: Any) -> Guard:
    config = Appliance(folder).config
    memory = {**MEMORY, "supervisord": supervisord, **changes}
    Path(config.health_file).write_text(json.dumps({"state": "READY", "memory": memory}))
    return Guard(config)


def test_the_spent_budget_stays_spent_under_the_same_and_under_a_new_supervisord(tmp_path: Path) -> None:
    for number, name in ((os.getppid(), StateName.BOOTING), (1, StateName.RECOVERING)):
        state = resumed(tmp_path, number).state
        assert (state.charges, state.failures, state.name) == ((10.0, 20.0, 30.0), 3, name)


def test_one_more_death_after_it_ends_the_appliance(tmp_path: Path) -> None:
    guard = resumed(tmp_path, os.getppid())
    now = 40.0
    watch = guard.world.servers["decode"]
    watch.on_event("RUNNING", now, 78)
    watch.on_event("EXITED", now + 1, 0, "exited with code 3")
    after, _ = next_state(guard.state, replace(guard.world.observe(), now=now + 1), guard.config.limits)
    assert after.name is StateName.FAILED
    assert "3 restart(s) did not help" in after.reason


def test_what_was_dealt_with_is_no_news(tmp_path: Path) -> None:
    guard = resumed(tmp_path, os.getppid())
    after, _ = next_state(guard.state, replace(guard.world.observe(), now=40.0), guard.config.limits)
    assert (after.name, len(after.charges)) == (StateName.BOOTING, 3)
    assert guard.world.servers["decode"].deaths == 3, "the count goes on"


def test_a_server_that_served_under_the_old_guard_cannot_end_the_appliance_by_a_line(tmp_path: Path) -> None:
    """Its /ready may say no, or be silent, when the new guard first looks."""
    guard = resumed(tmp_path, os.getppid(), charges=[], failures=0)
    for name, pid in (("prefill", 77), ("decode", 79)):
        guard.world.servers[name].on_event("RUNNING", 40.0, pid)
    assert guard.world.servers["prefill"].view().served
    assert not guard.world.servers["decode"].view().served, "another process than the one that served"


def test_who_serves_is_told_to_the_next_guard(tmp_path: Path) -> None:
    guard = Guard(Appliance(tmp_path).config)
    watch = guard.world.servers["decode"]
    watch.on_event("RUNNING", 40.0, 78)
    watch.served = True
    guard._publish()
    memory = json.loads(Path(guard.config.health_file).read_text())["memory"]
    assert memory["served"] == {"decode": 78}


# --- ending ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turns", range(4))
def test_a_term_beside_an_event_is_not_lost(turns: int) -> None:
    """supervisord's last events and its TERM come together, and then it waits for the guard to die."""

    async def looped() -> bool:
        event = asyncio.Event()

        async def loop() -> None:
            while True:
                await until_set(event, 60.0)
                event.clear()

        task = asyncio.create_task(loop())
        await asyncio.sleep(0.01)
        event.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=1.0)
        return bool(done)

    assert asyncio.run(looped())


def test_an_event_that_never_comes_is_waited_for_only_so_long() -> None:
    asyncio.run(until_set(asyncio.Event(), 0.01))
