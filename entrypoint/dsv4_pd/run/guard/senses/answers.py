"""What servers and router answer when they are asked over HTTP."""

from __future__ import annotations

import time

from dsv4_pd.plan.guard.config import ServerConfig
from dsv4_pd.run.guard.ask import probes, traffic
from dsv4_pd.run.guard.ask.probes import SLOW, Probes
from dsv4_pd.run.guard.decide import conditions
from dsv4_pd.run.guard.decide.states import Answer
from dsv4_pd.run.guard.world import World
from dsv4_pd.run.ops.kv_link import link_of
from dsv4_pd.run.ops.live import HOLDS

TOKENS = "sglang:realtime_tokens_total"  # moves with every batch, also in the middle of a long prefill
CAPACITY = "sglang:max_total_num_tokens"


class Answers:
    """One method for each kind of question; an answer that comes after its process is gone is dropped."""

    def __init__(self, world: World, probes: Probes) -> None:
        self._world, self._probes = world, probes
        self._sent: dict[str, dict[str, float]] = {}  # server -> its metrics
        self._answered: dict[str, float] = {}  # server -> first tokens that it has given out
        self._asked: dict[str, int] = {}  # server -> process that was asked for its longest request

    async def ready(self, server: ServerConfig) -> None:
        """A server's own word that it can serve."""
        watch = self._world.servers[server.name]
        if not watch.up:
            return
        pid, asked = watch.pid, time.monotonic()
        answer = await self._probes.status(f"{server.url}/ready")
        if answer is Answer.YES and self._asked.get(server.name) != pid:  # before it counts as ready: it is told then
            self._asked[server.name] = pid
            await self._longest(server)
        if watch.pid == pid:
            before = watch.ready
            detail = "/ready says no" if answer is Answer.NO and watch.served else ""
            watch.on_ready(answer, time.monotonic(), detail, asked)
            if answer is not before:
                self._world.wake()

    async def _longest(self, server: ServerConfig) -> None:
        watch = self._world.servers[server.name]
        watch.context_length = await self._probes.longest(server.url) or watch.context_length
        if "agreement" in self._world.config.about:
            watch.resolved = await self._probes.resolved(server.url)

    async def health(self, server: ServerConfig) -> None:
        """Its own test generation."""
        watch = self._world.servers[server.name]
        if watch.ready_at is None or not watch.up:
            return
        pid = watch.pid
        answer = await self._probes.status(f"{server.url}/health", SLOW)
        if watch.pid == pid:
            watch.on_health(answer, time.monotonic())

    async def bootstrap(self, server: ServerConfig) -> None:
        """Where decode finds a prefill."""
        watch = self._world.servers[server.name]
        before = watch.bootstrap
        up = conditions.can_serve(watch.view())
        watch.bootstrap = await self._probes.status(f"{server.bootstrap_url}/health") if up else Answer.NO
        if watch.bootstrap is not before:
            self._world.wake()

    async def router(self) -> None:
        """What the router says of itself and of the servers."""
        world = self._world
        if world.router is None or not world.router.up:
            return
        if not world.can_serve():
            # Its answer is known, and it logs each "no" as an error; what it said of other servers counts no more.
            world.router.on_ready(Answer.NO, time.monotonic(), "waits for the servers")
            return
        pid, before = world.router.pid, world.router.ready
        answer, why, unlisted = await self._of_router()
        if world.router.pid == pid:
            for name, watch in world.servers.items():
                watch.unlisted = name in unlisted
            world.router.on_ready(answer, time.monotonic(), why)
            if answer is not before:
                world.wake()

    async def _of_router(self) -> tuple[Answer, str, tuple[str, ...]]:
        """Its answer, why not, and the members to which it gives nothing."""
        config = self._world.config
        if self._world.routes:
            return await self._probes.listing(config.router_url, self._world.admitted)
        return (*await self._probes.router(config.router_url, self._world.admitted), ())

    async def metrics(self, server: ServerConfig) -> None:
        """A server's counters."""
        watch = self._world.servers[server.name]
        if watch.ready_at is None or not watch.up:
            return
        pid = watch.pid
        values = await self._probes.metrics(server.url)
        if watch.pid != pid or not values:
            return
        watch.on_counter(values.get(TOKENS, 0.0), time.monotonic())
        watch.kv_tokens = int(values[CAPACITY]) if CAPACITY in values else watch.kv_tokens
        untold = "agreement" in self._world.config.about and not watch.resolved
        if watch.context_length is None or untold:
            await self._longest(server)
        self._sent[server.name] = values
        sent = probes.summed(self._sent.values())
        link = link_of(lambda name: sent.get(name, 0.0))
        self._world.link = link.document() if link.transfers else self._world.link
        self._tell(server, values)

    def _tell(self, server: ServerConfig, values: dict[str, float]) -> None:
        """What the counters say of the traffic, and with it of the path."""
        world, now = self._world, time.monotonic()
        first, last = server.does != "decode", server.does != "prefill"
        world.traffic.on_sample(server.name, values, now, first=first, last=last)
        world.routes.on_sample(server.name, values, now, first=first, last=last)
        world.servers[server.name].running = sum(values.get(name, 0.0) for name in HOLDS)
        if world.router is None:
            handed_over = link_of(lambda name: values.get(name, 0.0)).transfers
            world.path.on_crossed(values.get(traffic.CROSSED, 0.0) if last else handed_over, now)
        elif last:
            self._answered[server.name] = values.get(traffic.CROSSED, 0.0)
            world.path.on_first_tokens(sum(self._answered.values()), now)
