"""What the host shows of the servers: their logs, processes, records, files and cards."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from dsv4_pd.plan.guard.config import ServerConfig
from dsv4_pd.plan.model import files as model_files
from dsv4_pd.run.follow import Follower
from dsv4_pd.run.guard.decide.states import Verdict
from dsv4_pd.run.guard.prove import plugin_proof
from dsv4_pd.run.guard.senses.gpus import Gpus
from dsv4_pd.run.guard.watch import compilers, tree
from dsv4_pd.run.guard.world import World


class Host:
    """One method for each kind of trace, and the cleaning of what a server left."""

    def __init__(self, world: World, gpus: Gpus) -> None:
        self._world, self._gpus = world, gpus
        self._here = tuple(server for server in world.config.servers if not server.ops_url)
        self._followers = {server.name: Follower(Path(server.log)) for server in self._here}
        self._proved: dict[str, int] = {}  # server -> its process, once its plugins have proved themselves in it

    # --- logs ---------------------------------------------------------------------------------------------------

    def read_history(self) -> None:
        """What the logs said before this guard was started, so before its first look at them."""
        for name, follower in self._followers.items():
            while lines := follower.lines():
                self._world.servers[name].on_history(lines, time.monotonic())

    async def logs(self) -> None:
        """What they said since."""
        for name, follower in self._followers.items():
            lines = follower.lines()
            if lines:
                self._world.servers[name].on_lines(lines, time.monotonic())
                self._world.wake()

    def clean_up_after(self, name: str) -> None:
        """A program's processes are all gone: read its log to the end, remove its shared memory."""
        if (door := self._world.door) and name == door.watch.name:
            door.read_log()
        watch = self._world.servers.get(name) if name in self._followers else None
        while watch and (lines := self._followers[name].lines()):
            watch.on_lines(lines, time.monotonic())
        if watch:
            tree.unlink(watch.shared_memory)
            watch.shared_memory = frozenset()

    # --- records and files --------------------------------------------------------------------------------------

    async def plugins(self) -> None:
        """Whether each server's plugins have proved themselves; proved once is proved for these processes."""
        world = self._world
        groups = {one.name: world.servers[one.name].pid for one in self._here if world.servers[one.name].pid}
        if len(groups) < len(self._here) and not world.routes:
            return
        for name, group in groups.items():
            if self._proved.get(name) == group:
                continue
            asked = Path(world.config.record_dir), {name: group}, world.config.plugins, tree.group_of
            missing = await asyncio.to_thread(plugin_proof.missing, *asked)
            if world.servers[name].pid == group:
                world.servers[name].unproved = missing
                self._proved[name] = 0 if missing else group

    async def model(self) -> None:
        """What each server found when it was started. A loop of its own: the folder may be a network's, and hang."""
        for watch in (self._world.servers[one.name] for one in self._here):
            if watch.pid and watch.model[0] != watch.pid:
                watch.model = (watch.pid, await asyncio.to_thread(self._model_stamp))

    def _model_stamp(self) -> str:
        source, revision = self._world.config.model_source, self._world.config.model_revision
        return model_files.stamp(model_files.find(source, revision, os.environ)) if source else ""

    # --- processes ----------------------------------------------------------------------------------------------

    async def processes(self) -> None:
        """What the servers' processes have read and worked, and which shared memory is theirs."""
        for server in self._here:
            watch = self._world.servers[server.name]
            if watch.up and watch.survey_due(time.monotonic()):
                who, read = await asyncio.to_thread(tree.work_of, watch.pid)
                watch.on_work((who, read), time.monotonic())
                files = await asyncio.to_thread(tree.shared_memory, who)
                watch.shared_memory |= files  # read after the wait: others write it meanwhile
                if watch.up:
                    self._world.processes.follow_workers(watch, tree.workers(who))

    async def compilers(self, server: ServerConfig) -> None:
        """Whether a server compiles."""
        watch = self._world.servers[server.name]
        if watch.up and watch.pid:
            pid, found = watch.pid, await asyncio.to_thread(compilers.run, watch.pid)
            if watch.pid == pid:
                watch.on_compilers(found, time.monotonic())

    async def compiled(self) -> None:
        """What the servers compile, counted; a strict appliance ends with it."""
        if why := self._world.compiles.look():
            self._world.fault = self._world.fault or Verdict(1, why)
            self._world.wake()

    # --- cards --------------------------------------------------------------------------------------------------

    async def cards(self) -> None:
        """What NVML says of the cards. A loop of its own: the answer may take as long as its deadline."""
        world = self._world
        await self._gpus.read()
        for server in world.config.servers:
            watch = world.servers[server.name]
            if server.gpus:
                world.gpu_memory[server.name] = self._gpus.memory(server.gpus)
                watch.gpu_fault = self._gpus.broken(server.gpus)
                watch.gpu_note = self._gpus.errors.last(server.gpus)
            if watch.gpu_holder:
                watch.gpu_holder = self._gpus.holder(server.gpus)
        world.gpu_lost = world.gpu_lost or self._gpus.lost()
        if world.gpu_lost:
            world.wake()

    async def cards_are_free(self, name: str) -> bool:
        """Whether nobody holds the memory of a server's GPUs; who does is told to policy, which waits for a while."""
        watch = self._world.servers.get(name)
        server = next((one for one in self._world.config.servers if one.name == name), None)
        if watch is None or server is None or not server.gpus:
            return True
        await self._gpus.read()
        watch.gpu_holder = self._gpus.holder(server.gpus)
        return watch.gpu_holder is None and self._gpus.lost() is None
