"""The guard's hands: the one place that acts on processes."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Awaitable, Callable

from dsv4_pd.plan.disk.run_mark import RUN_MARK
from dsv4_pd.run.guard.act import abort
from dsv4_pd.run.guard.ask.probes import Probes
from dsv4_pd.run.guard.decide import conditions
from dsv4_pd.run.guard.decide.states import Act, Action
from dsv4_pd.run.guard.senses.host import Host
from dsv4_pd.run.guard.watch import tree
from dsv4_pd.run.guard.world import World
from dsv4_pd.run.supervision import family
from dsv4_pd.run.supervision.rpc import FAILURES, IDLE, Supervisor

log = logging.getLogger("guard")


class Hands:
    """Applies actions. Policy repeats each until its effect is visible; at most one of a kind runs at a time."""

    def __init__(self, world: World, host: Host, supervisor: Supervisor, probes: Probes) -> None:
        self._config, self._world, self._host = world.config, world, host
        self._supervisor, self._probes = supervisor, probes
        # As `serve` starts it, supervisord leads a session and every process below it carries the run's mark.
        self._mark = os.environ.get(RUN_MARK, "")
        self._session = os.getppid() if os.getsid(0) == os.getppid() else 0
        self._busy: dict[Action, asyncio.Task[None]] = {}
        self._acts: dict[Act, Callable[[str], Awaitable[None]]] = {
            Act.START: self._start,
            Act.KILL: self._kill,
            Act.REGISTER: self._register,
            Act.ABORT: self._abort,
            Act.STOP: self._stop,
            Act.SHUTDOWN: self._shutdown,
        }

    def apply(self, action: Action) -> None:
        """Begin an action, unless the same one is still under way."""
        if action not in self._busy:
            self._busy[action] = asyncio.create_task(self._run(action))

    async def _run(self, action: Action) -> None:
        try:
            await self._acts[action.act](action.name)
        except FAILURES as error:
            log.warning("%s %s: %s", action.act.value, action.name, error)
        finally:
            await asyncio.sleep(0.5 if action.act in (Act.START, Act.REGISTER) else 0.1)  # time for it to show
            del self._busy[action]
            self._world.wake()

    async def _start(self, name: str) -> None:
        people = await asyncio.to_thread(family.everyone)  # before the list: whoever is born later is not in it
        listed = {process.name: process for process in await self._supervisor.processes()}
        if listed[name].state not in IDLE:
            return  # it runs already
        living = {process.pid for process in listed.values() if process.pid}
        leftovers = family.leftovers(people, self._mark, self._session, name, living)
        if leftovers:
            log.info("%s: ending %d process(es) that the last run left behind", name, len(leftovers))
            tree.kill(leftovers)
        self._host.clean_up_after(name)
        if name in self._world.servers and self._world.servers[name].deaths:
            await self._world.compiles.repair()
        if await self._host.cards_are_free(name):
            await self._supervisor.start(name)

    async def _kill(self, name: str) -> None:
        watch = self._world.watch(name)
        if watch and watch.pid and not watch.remote:
            watch.on_kill()
            files = await asyncio.to_thread(tree.shared_memory, tree.members(watch.pid))
            watch.shared_memory |= files  # read after the wait: others write it meanwhile
            tree.kill_group(watch.pid)

    async def _stop(self, name: str) -> None:
        await self._supervisor.stop(name)

    async def _register(self, _: str) -> None:
        config = self._config
        down = {role.name for role in self._world.observe().servers if not conditions.can_serve(role)}
        ours = {server.url: server.name for server in config.servers}
        for url in await self._probes.reconcile(config.router_url, self._world.admitted, config.api_key, down):
            if url in ours:
                log.info("router: %s gets no requests: %s", ours[url], self._world.servers[ours[url]].barred)
            else:
                log.warning("router: removed %s, a worker that is not ours", url)

    async def _abort(self, name: str) -> None:
        url = next(server.url for server in self._config.servers if server.name == name)
        await abort.everything(self._probes.client, url)
        await asyncio.sleep(abort.PAUSE_S)

    async def _shutdown(self, _: str) -> None:
        await asyncio.to_thread(self.sweep)
        await self._supervisor.shutdown()

    def sweep(self) -> None:
        """Leave nothing behind: escaped processes, the servers' shared memory, their temporary files."""
        tree.kill(family.programs(family.everyone(), self._mark, self._session, os.getpid()))
        for name in self._world.servers:
            self._host.clean_up_after(name)
        shutil.rmtree(self._config.temp_dir, ignore_errors=True)
