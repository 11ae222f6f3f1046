"""All senses, each in a loop at its own pace, so that at most one probe of a kind is in flight."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from dsv4_pd.run.guard.ask.probes import Probes
from dsv4_pd.run.guard.senses.answers import Answers
from dsv4_pd.run.guard.senses.canaries import Canaries
from dsv4_pd.run.guard.senses.elsewhere import Elsewhere
from dsv4_pd.run.guard.senses.gpus import Gpus
from dsv4_pd.run.guard.senses.host import Host
from dsv4_pd.run.guard.world import World

Loop = Coroutine[Any, Any, None]
log = logging.getLogger("guard")


class Senses:
    """What observes a world."""

    def __init__(self, world: World, probes: Probes, gpus: Gpus) -> None:
        self._world = world
        self.answers, self.canaries, self.host = Answers(world, probes), Canaries(world, probes), Host(world, gpus)
        self.elsewhere = Elsewhere(world, self.answers, probes)
        self._trouble: dict[str, int | None] = {}  # sense -> what keeps it from seeing

    def loops(self) -> list[Loop]:
        """One coroutine a loop; none of them ends by itself."""
        return [self._world.processes.take_events(), *self._of_all(), *self._of_each()]

    def _of_all(self) -> Iterator[Loop]:
        config, host = self._world.config, self.host
        yield self.every(5.0, self._world.processes.poll)
        if self._world.router:
            yield self.every(config.probe_interval, self.answers.router)
            yield self.every(0.2, self.canaries.through_router)
        if door := self._world.door:
            yield self.every(config.probe_interval, door.probe)
            yield self.every(0.25, door.follow)
        yield self.every(0.25, host.logs)
        yield self.every(0.25, host.plugins)
        yield self.every(1.0, host.compiled)
        yield self.every(15.0, self._world.compiles.seal)
        for sense in (host.processes, host.model, host.cards):
            yield self.every(config.metrics_interval, sense)
        for route in self._world.routes:
            yield self.every(0.2, self.canaries.along, route)
        for members in self._world.warm_up.routes:
            yield self.every(0.25, self.canaries.warm, members)

    def _of_each(self) -> Iterator[Loop]:
        config, answers = self._world.config, self.answers
        for server in config.servers:
            if server.ops_url:
                yield self.every(config.member_interval, self.elsewhere.look, server)
            else:
                yield self.every(config.probe_interval, answers.ready, server)
                yield self.every(config.health_interval, answers.health, server)
                yield self.every(config.metrics_interval, self.host.compilers, server)
            yield self.every(config.metrics_interval, answers.metrics, server)
            if server.bootstrap_url:
                yield self.every(config.probe_interval, answers.bootstrap, server)

    async def every(self, seconds: float, sense: Callable[..., Loop], *args: Any) -> None:
        """Use a sense again and again. A shortage of descriptors or memory passes, and is no defect of ours."""
        while True:
            try:
                await sense(*args)
                self._trouble.pop(sense.__qualname__, None)
            except OSError as error:
                if self._trouble.get(sense.__qualname__) != error.errno:
                    log.warning("%s: %s; trying again", sense.__qualname__, error)
                self._trouble[sense.__qualname__] = error.errno
            await asyncio.sleep(seconds)
