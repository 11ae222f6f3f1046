"""Whether requests come through: the guard's own, through the router and along each of several routes."""

from __future__ import annotations

import time

from dsv4_pd.plan.guard.config import ServerConfig
from dsv4_pd.run.guard.ask.probes import Probes
from dsv4_pd.run.guard.decide import conditions
from dsv4_pd.run.guard.decide.states import Answer
from dsv4_pd.run.guard.prove import canary, excuses
from dsv4_pd.run.guard.prove.canary import CanaryResult
from dsv4_pd.run.guard.prove.path_proof import PathProof
from dsv4_pd.run.guard.prove.routes import Route
from dsv4_pd.run.guard.world import World

UNNOTICED_S = 6.0  # after a server's end: two health checks of the router, and some


class Canaries:
    """Sends one at a time along each way, when it is due."""

    def __init__(self, world: World, probes: Probes) -> None:
        self._world, self._probes = world, probes

    async def through_router(self) -> None:
        """One as a client sends it, through front and router."""
        world, view = self._world, self._world.observe()
        way = all(conditions.can_serve(program) for program in view.way)
        if not way or not world.can_serve(bound=True) or not world.path.due(view):
            return
        if world.warm_up.running:
            return  # it would stand behind long prompts and compilers, and prove nothing that these do not
        if world.routes and any(role.ended and view.now - role.ended < UNNOTICED_S for role in view.servers):
            return  # the router may not have noticed yet
        deaths = [role.deaths for role in view.roles]
        bound = self._bound(world.path)
        world.path.on_sent(time.monotonic())
        result = await self._send(bound)
        if deaths != [role.deaths for role in world.observe().roles]:
            return  # it was sent through a pair that is gone
        world.path.on_result(result, time.monotonic(), busy=self.excused(result))
        world.wake()

    async def _send(self, bound: float) -> CanaryResult:
        world = self._world
        if not world.routes:
            return await canary.send(world.config, self._probes, bound)
        able = [one for one in world.config.servers if conditions.can_serve(world.servers[one.name].view())]
        return await canary.send(world.config, self._probes, bound, able)

    def _bound(self, proof: PathProof) -> float:
        """The first one of a start compiles on its way."""
        limits = self._world.config.limits
        return limits.first_canary_timeout if proof.view.sent is None else limits.canary_timeout

    def excused(self, result: CanaryResult) -> bool:
        """Whether one through the router was only behind others."""
        world = self._world
        views = [watch.view() for watch in world.servers.values()]
        moves = max(world.servers[one[0].name].moves_since(result.sent) for one in world.config.routes)
        return excuses.hold(result, views, world.traffic, moves, time.monotonic(), world.config.limits)

    async def along(self, route: Route) -> None:
        """One along one of several routes, past the router."""
        world = self._world
        watches = [world.servers[name] for name in route.proof.members]
        views = [watch.view() for watch in watches]
        able = all(conditions.can_serve(view) and view.bootstrap is not Answer.NO for view in views)
        if not able or world.warm_up.touches(route.servers) or not route.proof.due(world.observe()):
            return
        deaths, bound = [watch.deaths for watch in watches], self._bound(route.proof)
        route.proof.on_sent(time.monotonic())
        world.path.on_other()
        result = await canary.send_to(world.config, self._probes, route.servers, bound)
        if deaths != [watch.deaths for watch in watches]:
            return
        views, now = [watch.view() for watch in watches], time.monotonic()
        busy = route.busy(result, views, watches[0].moves_since(result.sent), now, world.config.limits)
        route.proof.on_result(result, now, busy=busy)
        world.wake()

    async def warm(self, route: tuple[ServerConfig, ...]) -> None:
        """The servers of this route that are cold, once nothing else is missing of it."""
        world, seen = self._world, self._world.observe()
        names = tuple(server.name for server in route)
        if world.warm_up.due(route) and names in conditions.open_routes(seen, conditions.before_warm_up(seen)):
            await world.warm_up.run(route, world.wake)
            world.wake()
