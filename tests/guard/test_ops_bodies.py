"""Status and body of the ops port's answers."""

from __future__ import annotations

import pytest
from dsv4_pd.run.ops import server as ops
from dsv4_pd.run.states import StateName


@pytest.mark.parametrize("state", StateName)
def test_status_and_body_agree(state: StateName) -> None:
    status, body = ops.ready_of({"state": state, "reason": "r"})
    assert (status == 200) == body["ready"] == (state in ("JOINABLE", "READY", "DEGRADED"))
    status, body = ops.live_of({"state": state, "reason": "r", "heartbeat_monotonic": 100.0}, 101.0)
    assert (status == 200) == body["live"] == (state not in ("FAILED", "STOPPING"))


def test_a_stuck_guard_is_not_live() -> None:
    assert ops.live_of({"state": "READY", "heartbeat_monotonic": 100.0}, 120.0)[0] == 503
