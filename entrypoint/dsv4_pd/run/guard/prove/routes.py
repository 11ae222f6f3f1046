"""Several routes, each with a proof of its own: what the router can't be told to choose, the guard asks directly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dsv4_pd.plan.guard.config import GuardConfig, Limits, ServerConfig
from dsv4_pd.run.guard.ask.traffic import CROSSED, Traffic
from dsv4_pd.run.guard.decide.states import PathView, RoleView
from dsv4_pd.run.guard.prove import excuses
from dsv4_pd.run.guard.prove.canary import CanaryResult
from dsv4_pd.run.guard.prove.path_proof import PathProof


@dataclass(slots=True)
class Route:
    """The servers that together answer a request. `alone`: whoever answers here answers on no other route."""

    servers: tuple[ServerConfig, ...]
    proof: PathProof
    alone: bool
    traffic: Traffic = field(default_factory=Traffic)

    def busy(self, result: CanaryResult, views: Sequence[RoleView], moves: int, now: float, limits: Limits) -> bool:
        """Whether its canary was only behind others.

        Answers of a decode that other prefills share say nothing of this prefill. While it gives them, a canary that is
        not answered may be in its queue, unless this prefill has something that it can't hand over.
        """
        if self.alone:
            return excuses.hold(result, views, self.traffic, moves, now, limits)
        compiles = excuses.compiling(result, views, limits)
        waits = self.traffic.came_through(now) and self.traffic.hands_over(result.sent)
        return compiles or (result.unanswered and (waits or self.traffic.only_queued(result.sent, moves)))


class Routes:
    """All of them; empty where there is only one, which is proved through the router."""

    def __init__(self, config: GuardConfig) -> None:
        routes = config.routes if len(config.routes) > 1 else ()
        ends = Counter(route[-1].name for route in routes)
        self._routes = tuple(
            Route(route, PathProof(config.canary_interval, tuple(one.name for one in route)), ends[route[-1].name] == 1)
            for route in routes
        )

    def __iter__(self) -> Iterator[Route]:
        return iter(self._routes)

    def __len__(self) -> int:
        return len(self._routes)

    def views(self) -> tuple[PathView, ...]:
        """What policy sees of them."""
        return tuple(PathView(route.proof.members, route.proof.view) for route in self._routes)

    def forget(self, name: str) -> None:
        """A server died: nothing is proved any more where it is needed."""
        for route in self._routes:
            if name in route.proof.members:
                route.proof.forget()

    def on_sample(self, name: str, values: Mapping[str, float], now: float, *, first: bool, last: bool) -> None:
        """A server's metrics."""
        for route in self._routes:
            if name in route.proof.members:
                route.traffic.on_sample(name, values, now, first=first, last=last)
                if last and route.alone:
                    route.proof.on_first_tokens(values.get(CROSSED, 0.0), now)
