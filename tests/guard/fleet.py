"""A simulated appliance of several members for `next_state`: each route is proved by itself, the router by any."""

from __future__ import annotations

from dataclasses import replace

from dsv4_pd.plan.guard.config import GuardConfig, Limits, ServerConfig
from dsv4_pd.run.guard.decide import conditions, policy
from dsv4_pd.run.guard.decide.states import (
    Act,
    Action,
    Answer,
    CanaryView,
    Observation,
    PathView,
    State,
    Verdict,
    initial,
)
from dsv4_pd.settings.layout import member_name, parse
from guard.simulation import LIMITS, Role

TICK = 0.5


class Fleet:
    """Runs policy over the members of a layout. `broken`: routes on which no canary comes through."""

    def __init__(self, layout: str, limits: Limits = LIMITS) -> None:
        servers = [ServerConfig(member_name(role, at), "", "", role=role) for role, at in parse(layout).members]
        self.routes = [tuple(one.name for one in route) for route in GuardConfig.routes.fget(_Servers(servers))]  # type: ignore[attr-defined]
        self.limits, self.now = limits, 1000.0
        self.members = {one.name: Role(one.name) for one in servers}
        self.router, self.front = Role("router", load_s=1.0), Role("front", load_s=0.5)
        self.state: State = initial(self.now)
        self.paths = {route: CanaryView() for route in self.routes}
        self.due = dict.fromkeys(self.routes, 0.0)
        self.canary, self.canary_due = CanaryView(), 0.0
        self.broken: set[tuple[str, ...]] = set()
        self.router_carries = True
        self.turn = 0
        self.actions: tuple[Action, ...] = ()
        self.starts: list[tuple[float, str]] = []
        self.aborted: list[tuple[float, str]] = []
        self.registered = 0
        self.history = [self.state.name]
        self.changed: dict[str, float] = {}

    def __getitem__(self, name: str) -> Role:
        return {"router": self.router, "front": self.front}.get(name) or self.members[name]

    def observe(self) -> Observation:
        views = tuple(role.observe(self.now) for role in self.members.values())
        views = tuple(replace(view, unlisted=not self._listed(view.name)) if view.ready is Answer.YES else view
                      for view in views)  # fmt: skip
        able = {view.name for view in views if conditions.can_serve(view)}
        router = self.router.observe(self.now)
        if not any(able.issuperset(route) for route in self.routes):
            router = replace(router, ready=Answer.NO)
        paths = tuple(PathView(route, view) for route, view in self.paths.items())
        front = self.front.observe(self.now)
        return Observation(self.now, views, router, canary=self.canary, paths=paths, front=front)

    def _listed(self, name: str) -> bool:
        role = self.members[name]
        ready = role.observe(self.now).ready is Answer.YES
        return ready and self.now - role.started >= (role.load_s or 0.0) + 2.0

    def step(self) -> None:
        self.now += TICK
        for role in [*self.members.values(), self.router, self.front]:
            if role.up and role.life_s is not None and self.now - role.started >= role.life_s:
                self.die(role.name)
        self.state, self.actions = policy.next_state(self.state, self.observe(), self.limits)
        if self.state.name is not self.history[-1]:
            self.history.append(self.state.name)
        for action in self.actions:
            self._obey(action)
        if self.now >= min(self.canary_due, *self.due.values()):
            self._fly(self.observe())

    def _obey(self, action: Action) -> None:
        known = {**self.members, "router": self.router, "front": self.front}
        role = known.get(action.name)
        if action.act is Act.START and role and not role.up:
            role.up, role.started, role.progress = True, self.now, self.now
            role.served, role.serving_since, role.said = False, None, None
            self.starts.append((self.now, role.name))
        elif action.act in (Act.KILL, Act.STOP) and role and role.up:
            self.die(role.name)
        elif action.act is Act.ABORT:
            self.aborted.append((self.now, action.name))
        elif action.act is Act.REGISTER:
            self.registered += 1

    def die(self, name: str) -> None:
        role = self[name]
        role.up, role.deaths, role.ended = False, role.deaths + 1, self.now
        if name in ("router", "front"):
            self.canary, self.canary_due = CanaryView(), 0.0
        for route in self.routes:
            if name in route:
                self.paths[route], self.due[route] = CanaryView(), 0.0

    def _fly(self, seen: Observation) -> None:
        able = {view.name for view in seen.servers if conditions.can_serve(view)}
        open_ = [route for route in self.routes if able.issuperset(route)]
        for route in open_:
            if self.now >= self.due[route]:
                self.paths[route], wait = self._landed(self.paths[route], route not in self.broken, " to ".join(route))
                self.due[route] = self.now + wait
        settled = all(self.now - role.ended > 6.0 for role in self.members.values() if role.ended)
        if (
            open_
            and settled
            and all(conditions.can_serve(program) for program in seen.way)
            and self.now >= self.canary_due
        ):
            self.turn += 1
            passes = self.router_carries and open_[self.turn % len(open_)] not in self.broken
            self.canary, wait = self._landed(self.canary, passes, "router")
            self.canary_due = self.now + wait

    def _landed(self, view: CanaryView, passed: bool, what: str) -> tuple[CanaryView, float]:
        if passed:
            return CanaryView(self.now, self.now), 30.0
        return replace(view, failures=view.failures + 1, failure=f"{what}: no answer"), 13.0

    def run(self, seconds: float, *until: str) -> float:
        begun = self.now
        while self.now - begun < seconds and self.state.name not in until and self.state.verdict is None:
            self.step()
        return self.now - begun

    def started(self, name: str) -> int:
        """How often."""
        return sum(who == name for _, who in self.starts)

    def verdict(self) -> Verdict:
        assert self.state.verdict is not None, self.state
        return self.state.verdict


class _Servers:
    """What `GuardConfig.routes` reads."""

    def __init__(self, servers: list[ServerConfig]) -> None:
        self.servers = tuple(servers)
