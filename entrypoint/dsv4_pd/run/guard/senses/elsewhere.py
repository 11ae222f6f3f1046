"""Members on other hosts, as a router's guard sees them: by the word of their own guards, and by asking themselves."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dsv4_pd.plan.flags import agreement
from dsv4_pd.plan.guard.config import ServerConfig
from dsv4_pd.run.guard.ask.probes import Probes
from dsv4_pd.run.guard.decide.states import Answer
from dsv4_pd.run.guard.senses.answers import Answers
from dsv4_pd.run.guard.world import World
from dsv4_pd.run.states import CLOSING, SERVING

LOST_S = 5.0  # without a word, a member is taken to be gone: its host or the network may be


@dataclass(frozen=True, slots=True)
class Told:
    """What a member's guard tells of its one server. pid: 0 where none runs, a number on its own host."""

    state: str
    role: str
    pid: int
    detail: str
    last_exit: str
    agreement: Mapping[str, str] = field(default_factory=dict)  # what all members must have alike


class Elsewhere:
    """Keeps the records of such members. Nothing here acts on them: their own guards do."""

    def __init__(self, world: World, answers: Answers, probes: Probes) -> None:
        self._world, self._answers, self._probes = world, answers, probes
        self._heard: dict[str, float] = {}
        self._told: dict[str, Mapping[str, str]] = {}  # of those that were admitted

    async def look(self, server: ServerConfig) -> None:
        """Ask its guard, then the server itself."""
        watch = self._world.servers[server.name]
        answer, text = await self._probes.get(f"{server.ops_url}/status")
        told, now = parse(text) if answer is Answer.YES else None, time.monotonic()
        before = (watch.pid, watch.ready, watch.barred)
        if told is None:
            self._silent(server, now)
        else:
            self._heard[server.name] = now
            self._take(server, told, now)
            if watch.up and not watch.barred:
                await self._answers.ready(server)
        if before != (watch.pid, watch.ready, watch.barred):
            self._world.wake()

    def _silent(self, server: ServerConfig, now: float) -> None:
        watch = self._world.servers[server.name]
        heard = self._heard.get(server.name)
        if heard is not None and now - heard <= LOST_S:
            return
        self._end(server, f"no answer from {server.ops_url}", now)
        watch.barred = f"no answer from {server.ops_url}"

    def _take(self, server: ServerConfig, told: Told, now: float) -> None:
        watch = self._world.servers[server.name]
        if told.pid != watch.pid:
            self._end(server, told.last_exit or "was replaced", now)
            if told.pid:
                watch.on_event("RUNNING", now, told.pid)
        watch.barred = bar(server, told) or self._unlike(server, told)
        if not watch.barred:
            self._told[server.name] = told.agreement
        if watch.barred and watch.up:
            watch.on_ready(Answer.NO, now, told.detail)

    def _unlike(self, server: ServerConfig, told: Told) -> str:
        """What tells it apart from the members that are admitted: the first to come sets what the others must have."""
        if not told.agreement:
            return "has not told what it serves with"
        others = (one.name for one in self._world.admitted if one.name != server.name and one.name in self._told)
        for name in others:
            pair = {name: self._told[name], server.name: told.agreement}
            if found := "; ".join(agreement.differences(pair)):
                return f"refused: {found}"
        return ""

    def _end(self, server: ServerConfig, how: str, now: float) -> None:
        watch = self._world.servers[server.name]
        if watch.up:
            watch.on_event("EXITED", now, how=how)
            self._world.on_process(server.name)


def bar(server: ServerConfig, told: Told) -> str:
    """Why a member may get no requests; empty where nothing speaks against it."""
    if told.role != server.does:
        return f"is a {told.role or 'whole appliance'}, and listed as a {server.does}"
    if told.state in CLOSING:
        return f"is leaving ({told.state})"
    if not told.pid:
        return f"not running{f' ({told.last_exit})' if told.last_exit else ''}"
    return "" if told.state in SERVING else f"{told.state}: {told.detail}"


def parse(text: str) -> Told | None:
    """A member's `/status`; None for anything else.

    >>> parse('{"state": "READY", "roles": {"decode": {"role": "decode", "pid": 7, "detail": "ready"}}}')
    Told(state='READY', role='decode', pid=7, detail='ready', last_exit='', agreement={})
    """
    try:
        found = json.loads(text)
        state, roles = str(found["state"]), dict(found["roles"])
    except (ValueError, TypeError, KeyError):
        return None
    one: Any = next(iter(roles.values())) if len(roles) == 1 else {}
    one = one if isinstance(one, dict) else {}
    pid, told = one.get("pid"), found.get("agreement")
    return Told(
        state,
        str(one.get("role") or ""),
        pid if isinstance(pid, int) else 0,
        str(one.get("detail") or ""),
        str(one.get("last_exit") or ""),
        {str(flag): str(value) for flag, value in told.items()} if isinstance(told, dict) else {},
    )
