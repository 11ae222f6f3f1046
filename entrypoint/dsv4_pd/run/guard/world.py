"""What the guard knows of the world: a record that its senses keep, and the one `Observation` made of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dsv4_pd.plan.guard.config import GuardConfig, ServerConfig
from dsv4_pd.run.guard.ask import traffic
from dsv4_pd.run.guard.ask.door import Door
from dsv4_pd.run.guard.ask.probes import Probes
from dsv4_pd.run.guard.decide import conditions
from dsv4_pd.run.guard.decide.states import Answer, Observation, Verdict
from dsv4_pd.run.guard.prove.path_proof import PathProof
from dsv4_pd.run.guard.prove.routes import Routes
from dsv4_pd.run.guard.prove.warm_up import WarmUp
from dsv4_pd.run.guard.watch.compiles import Compiles
from dsv4_pd.run.guard.watch.processes import Processes
from dsv4_pd.run.guard.watch.record import Watch
from dsv4_pd.run.guard.watch.signatures import Signatures
from dsv4_pd.run.supervision.rpc import Supervisor


class World:
    """Everything observed. `wake` is called when something changed that can't wait for the next tick."""

    def __init__(self, config: GuardConfig, supervisor: Supervisor, probes: Probes, wake: Callable[[], None]) -> None:
        signatures = Signatures(Path(config.signatures).read_text(encoding="utf-8"))
        self.config, self.wake = config, wake
        self.servers = {
            server.name: Watch(server.name, signatures, server.memory, remote=bool(server.ops_url))
            for server in config.servers
        }
        self.router = Watch("router") if config.router_url else None
        self.door = Door(config, probes, wake) if config.front_url else None
        for server in config.servers:
            self.servers[server.name].bootstrap = Answer.NO if server.bootstrap_url else Answer.YES
        self.path = PathProof(config.canary_interval)
        self.traffic = traffic.Traffic()
        self.routes = Routes(config)
        here = {name: watch for name, watch in self.servers.items() if not watch.remote}
        self.compiles = Compiles(config, here)
        self.warm_up = WarmUp(config, self.servers, probes, self.on_own_requests)
        self.gpu_lost: str | None = None
        self.gpu_memory: dict[str, Any] = {}
        self.link: dict[str, float] = {}
        self.stop: str | None = None
        self.fault: Verdict | None = None
        self.processes = Processes(supervisor, {watch.name: watch for watch in self.local}, self.on_process)

    def observe(self) -> Observation:
        """The world as it is now."""
        return Observation(
            now=time.monotonic(),
            servers=tuple(watch.view() for watch in self.servers.values()),
            router=self.router.view() if self.router else None,
            canary=self.path.view,
            paths=self.routes.views(),
            gpu_lost=self.gpu_lost,
            fault=self.fault,
            stop=self.stop,
            front=self.door.watch.view() if self.door else None,
        )

    @property
    def programs(self) -> tuple[Watch, ...]:
        """The record of every program that the guard looks after."""
        way = (self.router, self.door.watch if self.door else None)
        return (*self.servers.values(), *(watch for watch in way if watch is not None))

    @property
    def local(self) -> tuple[Watch, ...]:
        """Those that run on this host."""
        return tuple(watch for watch in self.programs if not watch.remote)

    @property
    def admitted(self) -> tuple[ServerConfig, ...]:
        """The servers that the router may give requests to."""
        return tuple(server for server in self.config.servers if not self.servers[server.name].barred)

    @property
    def missing_proof(self) -> tuple[str, ...]:
        """Every plugin that has not proved itself."""
        return tuple(text for watch in self.servers.values() for text in watch.unproved)

    def watch(self, name: str) -> Watch | None:
        """The record of a program that the guard looks after."""
        return next((watch for watch in self.programs if watch.name == name), None)

    def can_serve(self, *, bound: bool = False) -> bool:
        """Whether the servers of a route can serve. `bound`: and no bootstrap port there says no."""
        return any(
            all(conditions.can_serve(view) and not (bound and view.bootstrap is Answer.NO) for view in views)
            for route in self.config.routes
            for views in [[self.servers[one.name].view() for one in route]]
        )

    def on_own_requests(self, route: tuple[ServerConfig, ...], count: int) -> None:
        """What the warm-up sends proves nothing about clients."""
        own = [self.path, *(one.proof for one in self.routes if one.alone and one.servers == route)]
        for proof in own:
            for _ in range(count):
                proof.on_other()

    def on_process(self, died: str) -> None:
        """A death takes the proof of its paths away: where there is one, any death does."""
        if died and (died not in self.servers or not self.routes):
            self.path.forget()
        if died:
            self.routes.forget(died)
        self.wake()
