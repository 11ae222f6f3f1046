"""When a failed canary is no confirmed failure: it waited behind others or a compiler; the path is not broken."""

from __future__ import annotations

from collections.abc import Sequence

from dsv4_pd.plan.guard.config import Limits
from dsv4_pd.run.guard.ask.traffic import Traffic
from dsv4_pd.run.guard.decide import silence
from dsv4_pd.run.guard.decide.states import RoleView
from dsv4_pd.run.guard.prove.canary import CanaryResult


def hold(
    result: CanaryResult, servers: Sequence[RoleView], traffic: Traffic, moves: int, now: float, limits: Limits
) -> bool:
    """`moves`: in how many intervals between samples prefill computed since it was sent; it makes one itself."""
    if compiling(result, servers, limits):
        return True
    queued = result.unanswered and traffic.only_queued(result.sent, moves)
    return queued or traffic.came_through(now)


def compiling(result: CanaryResult, servers: Sequence[RoleView], limits: Limits) -> bool:
    """Whether a compiler ran in one of the servers since it was sent."""
    return any(silence.compiled(role, limits) >= result.sent for role in servers if role.compiling)
