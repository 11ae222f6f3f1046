"""The published document: what health.json, /status and the console show."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dsv4_pd.plan.guard.config import GuardConfig
from dsv4_pd.run.guard.decide.states import Answer, Phase, State
from dsv4_pd.run.guard.watch.record import Watch
from dsv4_pd.run.guard.world import World
from dsv4_pd.run.states import SERVING


def document(config: GuardConfig, world: World, state: State, events: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Everything that is published, from one instant."""
    now, clock = time.monotonic(), time.time()
    roles = {server.name: server.does for server in config.servers}
    limits = [watch.context_length for watch in world.servers.values() if watch.context_length]
    return {
        "state": state.name.value,
        "reason": state.reason,
        "serving": state.name in SERVING,
        "since": round(clock - (now - state.since), 3),
        "heartbeat": round(clock, 3),
        "heartbeat_monotonic": round(now, 3),
        "version": config.version,
        "mode": config.mode,
        "profile": config.profile,
        "model": config.model,
        "context_length": min(limits, default=None),  # the longest request that every server takes
        "roles": {
            watch.name: {
                "role": roles.get(watch.name, watch.name),
                **role(watch, now, world.gpu_memory.get(watch.name), world.warm_up.told(watch.name)),
            }
            for watch in world.programs
        },
        "canary": canary(world, now),
        "link": link(config, world) if config.mode == "pd" else None,
        "restarts": {
            "spent": len(state.charges),
            "limit": config.limits.restart_limit,
            "window_s": config.limits.restart_window,
        },
        **({"paths": paths(world, now), "members": budgets(state)} if world.routes else {}),
        "proof": {"plugins": list(config.plugins), "missing": list(world.missing_proof)},
        "compiles": world.compiles.log.document(),
        **agreement(config, world),
        "notices": list(config.notices),
        "events": list(events),
    }


def agreement(config: GuardConfig, world: World) -> dict[str, Any]:
    """Of a member of several hosts: what a router compares with the others; null until its server has told all."""
    if "agreement" not in config.about:
        return {}
    told = [watch.resolved for watch in world.servers.values()]
    known = {**config.about["agreement"], **told[0]} if all(told) else None
    return {"agreement": known}


def link(config: GuardConfig, world: World) -> dict[str, Any]:
    """Figures of the traffic, and what the test at start found; null until that test is through."""
    try:
        found = json.loads(Path(config.health_file).with_name("link.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = None
    kept = ("ok", "bytes_per_s", "transport", "over_tcp", "slow", "text")
    test = {name: found.get(name) for name in kept} if isinstance(found, dict) else None
    return {"backend": "nixl", **world.link, "test": test}


def role(watch: Watch, now: float, gpu_memory: Any, warm_up: Any = None) -> dict[str, Any]:
    """One program."""
    eta = watch.eta(now)
    found = {
        "phase": watch.phase.value,
        "percent": watch.percent,
        "ready": watch.up and watch.ready is Answer.YES,
        "detail": watch.describe(),
        "pid": watch.pid or None,
        "restarts": watch.deaths,
        "last_exit": watch.exit or None,
        "elapsed_s": round(now - watch.started, 3) if watch.up else None,
        "ready_after_s": watch.phase_times.get(Phase.READY.value),
        "eta_s": round(eta, 1) if eta is not None else None,
        "phase_times": watch.phase_times,
    }
    if watch.kv_tokens is not None:
        found["kv_capacity_tokens"] = watch.kv_tokens
    if watch.needs_warm_up:
        found["warm_after_s"] = None if watch.warm_at is None else round(watch.warm_at - watch.started, 3)
    if warm_up:
        found["warm_up"] = warm_up
    return found | ({"gpu_memory": gpu_memory} if gpu_memory else {})


def paths(world: World, now: float) -> list[dict[str, Any]]:
    """The last request that the guard sent along each of several routes."""
    return [
        {
            "members": list(path.members),
            "proved_s_ago": round(now - path.canary.proved, 1) if path.canary.proved is not None else None,
            "failures": path.canary.failures,
            "failure": path.canary.failure or None,
        }
        for path in world.routes.views()
    ]


def budgets(state: State) -> dict[str, Any]:
    """What members have spent of their own budgets, and why."""
    return {one.name: {"spent": len(one.charges), "cause": one.cause} for one in state.members}


def canary(world: World, now: float) -> dict[str, Any]:
    """The last end-to-end request."""
    view, last = world.path.view, world.path.result
    return {
        "proved_s_ago": round(now - view.proved, 1) if view.proved is not None else None,
        "failures": view.failures,
        "failure": view.failure or None,
        "seconds": round(last.seconds, 3) if last and last.passed else None,
        "queued": bool(last and last.queued),
    }
