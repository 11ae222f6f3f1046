"""The guard's senses: loops that probe, follow logs and ask supervisord, and the one `Observation` they add up to."""

from __future__ import annotations

import asyncio
import os
import re
import time
import xmlrpc.client
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp

from dsv4_pd.follow import Follower
from dsv4_pd.guard import canary, proof, tree
from dsv4_pd.guard.config import GuardConfig, ServerConfig
from dsv4_pd.guard.gpus import Gpus
from dsv4_pd.guard.listener import Event
from dsv4_pd.guard.probes import SLOW, Probes
from dsv4_pd.guard.signatures import Signatures
from dsv4_pd.guard.states import Answer, CanaryView, Observation, Verdict
from dsv4_pd.guard.supervisor import UP, Supervisor
from dsv4_pd.guard.watch import Watch

TOKENS = "sglang:realtime_tokens_total"  # moves with every batch, also in the middle of a long prefill
UNREACHABLE = (OSError, aiohttp.ClientError, TimeoutError, xmlrpc.client.Fault)
REQUESTS = "sglang:num_requests_total"
CAPACITY = "sglang:max_total_num_tokens"
_EXITED = re.compile(r"(?:exited|gave up|spawn\w*): (\S+) \((.+?)(?:; (?:not )?expected)?\)")


class World:
    """Everything that the guard sees. `wake` is called when something changed that can't wait for the next tick."""

    def __init__(
        self, config: GuardConfig, supervisor: Supervisor, probes: Probes, gpus: Gpus, wake: Callable[[], None]
    ) -> None:
        signatures = Signatures(Path(config.signatures).read_text(encoding="utf-8"))
        self.config, self.supervisor, self.probes, self.gpus, self.wake = config, supervisor, probes, gpus, wake
        self.servers = {server.name: Watch(server.name, signatures) for server in config.servers}
        self.router = Watch("router")
        self.bootstrap = Answer.YES if config.mode == "single" else Answer.NO
        self.canary = CanaryView()
        self.canary_result: canary.Result | None = None
        self.missing_proof: tuple[str, ...] = ()
        self.gpu_lost: str | None = None
        self.gpu_memory: dict[str, Any] = {}
        self.stop: str | None = None
        self.hurry = False
        self.fault: Verdict | None = None
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._order = asyncio.Lock()  # one change at a time, in order
        self._followers: dict[str, Follower] = {}
        self._requests_at_proof: float | None = None
        self._own_requests = 0

    def observe(self) -> Observation:
        """The world as it is now."""
        return Observation(
            now=time.monotonic(),
            servers=tuple(watch.view() for watch in self.servers.values()),
            router=self.router.view(),
            bootstrap=self.bootstrap,
            canary=self.canary,
            missing_proof=self.missing_proof,
            gpu_lost=self.gpu_lost,
            fault=self.fault,
            stop=self.stop,
            hurry=self.hurry,
        )

    def watch(self, name: str) -> Watch | None:
        """The record of a program that the guard looks after."""
        return self.router if name == "router" else self.servers.get(name)

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        """All senses; each is one loop, so that no probe of a kind overtakes another."""
        quick = self.config.probe_interval
        found = [
            self._take_events(),
            self._every(5.0, self.poll),
            self._every(quick, self._probe_router),
            self._every(0.2, self._canary),
            self._every(0.25, self._follow),
            self._every(1.0, self._proof),
            self._every(5.0, self._slow_facts),
        ]
        for server in self.config.servers:
            found += [
                self._every(quick, self._probe_ready, server),
                self._every(self.config.metrics_interval, self._metrics, server),
                self._every(self.config.health_interval, self._probe_health, server),
            ]
            if server.bootstrap_url:
                found.append(self._every(quick, self._probe_bootstrap, server))
        return found

    async def _every(self, seconds: float, sense: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        while True:
            await sense(*args)
            await asyncio.sleep(seconds)

    # --- supervisord --------------------------------------------------------------------------------------------

    def on_event(self, event: Event) -> None:
        """Queue an event; its meaning is read from supervisord, one at a time and in order."""
        self._events.put_nowait(event)

    async def _take_events(self) -> None:
        while True:
            event = await self._events.get()
            async with self._order:
                await self._take(event)

    async def _take(self, event: Event) -> None:
        watch = self.watch(event.name)
        if watch is None:
            return
        pid, how = event.pid if event.state in UP else 0, ""
        try:
            if event.state == "STARTING":
                pid = (await self.supervisor.process(event.name)).pid
            elif event.state not in UP and watch.alive:
                how = await self._how(event.name)
        except UNREACHABLE:
            how = "ended (supervisord does not answer)"
        self._change(watch, partial(watch.on_event, event.state, time.monotonic(), pid, how))

    async def poll(self) -> None:
        """Compare with supervisord's own list, in case an event was missed."""
        asked = time.monotonic()
        try:
            processes = await self.supervisor.processes()
        except UNREACHABLE:
            return  # the event pipe tells whether supervisord is gone
        async with self._order:
            for process in processes:
                watch = self.watch(process.name)
                if watch and watch.differs(process, asked):
                    if watch.pid and process.pid and process.pid != watch.pid:
                        self._change(watch, watch.on_replaced)
                    await self._take(Event(process.name, process.state, process.pid))

    def _change(self, watch: Watch, change: Callable[[], None]) -> None:
        deaths, pid = watch.deaths, watch.pid
        change()
        if watch.deaths != deaths:
            self._forget_path()
        if watch.pid != pid and watch.pid:
            self._follow_pid(watch)
        self.wake()

    def _forget_path(self) -> None:
        """Any death takes the proof of the path away."""
        self.canary = CanaryView()

    def _follow_pid(self, watch: Watch) -> None:
        """Hear from the kernel when the process ends: supervisord looks only once a second."""
        try:
            descriptor = os.pidfd_open(watch.pid)
        except OSError:
            return  # an old kernel, or gone already: supervisord's event comes anyway
        loop, pid = asyncio.get_running_loop(), watch.pid

        def ended() -> None:
            loop.remove_reader(descriptor)
            os.close(descriptor)
            watch.on_gone(pid)
            self.wake()

        loop.add_reader(descriptor, ended)

    async def _how(self, name: str) -> str:
        """How a program's process ended, in words; only supervisord's log names a signal."""
        told: list[str] = [text for who, text in _EXITED.findall(await self._supervisor_log()) if who == name]
        if not told:
            status = (await self.supervisor.process(name)).exit_status
            return f"exited with code {status}"
        hint = " (likely out of memory, or its own crash handler)" if "SIGKILL" in told[-1] else ""
        hint = " (128 + 9: likely out of memory)" if told[-1] == "exit status 137" else hint
        return told[-1].replace("terminated by", "was ended by").replace("exit status", "exited with code") + hint

    async def _supervisor_log(self) -> str:
        try:
            return await self.supervisor.log_tail()
        except Exception:  # no log configured: the signal's name is a nicety
            return ""

    # --- probes -------------------------------------------------------------------------------------------------

    async def _probe_ready(self, server: ServerConfig) -> None:
        watch = self.servers[server.name]
        if not watch.up:
            return
        pid = watch.pid
        answer = await self.probes.status(f"{server.url}/ready")
        if watch.pid == pid:
            before = watch.ready
            detail = "/ready says no" if answer is Answer.NO and watch.ready_at else ""
            watch.on_ready(answer, time.monotonic(), detail)
            if answer is not before:
                self.wake()

    async def _probe_health(self, server: ServerConfig) -> None:
        watch = self.servers[server.name]
        if watch.ready_at is None or not watch.up:
            return
        pid = watch.pid
        self._own_requests += 1
        answer = await self.probes.status(f"{server.url}/health", SLOW)
        if watch.pid == pid:
            watch.on_health(answer, time.monotonic())

    async def _probe_bootstrap(self, server: ServerConfig) -> None:
        before = self.bootstrap
        up = self.servers[server.name].ready is Answer.YES
        self.bootstrap = await self.probes.status(f"{server.bootstrap_url}/health") if up else Answer.NO
        if self.bootstrap is not before:
            self.wake()

    async def _probe_router(self) -> None:
        if not self.router.up:
            return
        pid, before = self.router.pid, self.router.ready
        answer, why = await self.probes.router(self.config.router_url, len(self.config.servers))
        if self.router.pid == pid:
            self.router.on_ready(answer, time.monotonic(), why)
            if answer is not before:
                self.wake()

    async def _metrics(self, server: ServerConfig) -> None:
        watch = self.servers[server.name]
        if watch.ready_at is None or not watch.up:
            return
        pid = watch.pid
        values = await self.probes.metrics(server.url)
        if watch.pid != pid or not values:
            return
        watch.on_counter(values.get(TOKENS, 0.0), time.monotonic())
        watch.kv_tokens = int(values[CAPACITY]) if CAPACITY in values else watch.kv_tokens
        if server is self.config.servers[-1]:
            self._prove_by_traffic(values.get(REQUESTS, 0.0))

    def _prove_by_traffic(self, requests: float) -> None:
        """Requests that decode finished, beyond our own, refresh a proof; only a canary can give the first one."""
        before, self._requests_at_proof = self._requests_at_proof, requests
        own, self._own_requests = self._own_requests, 0
        if before is not None and requests - before > own and self.canary.sent is not None:
            self.canary = CanaryView(self.canary.sent, time.monotonic())

    # --- the path -----------------------------------------------------------------------------------------------

    async def _canary(self) -> None:
        view = self.observe()
        ends = [role.up and role.ready is Answer.YES for role in view.roles]
        if not all(ends) or view.bootstrap is not Answer.YES or not self._canary_due(view):
            return
        deaths = [role.deaths for role in view.roles]
        self._own_requests += 1
        result = await canary.fly(self.config, self.probes)
        if deaths != [role.deaths for role in self.observe().roles]:
            return  # it flew over a pair that is no more
        self.canary_result = result
        self._land(result)
        self.wake()

    def _canary_due(self, view: Observation) -> bool:
        newest = max(role.started for role in view.roles)
        if self.canary.failures or self.canary.sent is None or self.canary.sent < newest:
            return True
        return self.canary.proved is None or view.now - self.canary.proved >= self.config.canary_interval

    def _land(self, result: canary.Result) -> None:
        if result.passed:
            self.canary = CanaryView(result.sent, time.monotonic())
        elif not result.queued and not self._busy_since(result.sent):
            self.canary = replace(self.canary, failures=self.canary.failures + 1, failure=result.failure)

    def _busy_since(self, sent: float) -> bool:
        """Whether others' requests were computed all the while; the canary alone moves prefill's counter once."""
        first, *rest = (watch.moves_since(sent) for watch in self.servers.values())
        return first >= 2 or any(rest)

    # --- slow facts ---------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        for server in self.config.servers:
            follower = self._followers.setdefault(server.name, Follower(Path(server.log)))
            lines = follower.lines()
            if lines:
                self.servers[server.name].on_lines(lines, time.monotonic())
                self.wake()

    async def _proof(self) -> None:
        groups = {name: watch.pid for name, watch in self.servers.items()}
        self.missing_proof = (
            proof.missing(Path(self.config.record_dir), groups, self.config.plugins, tree.group_of)
            if all(groups.values())
            else ()
        )

    async def _slow_facts(self) -> None:
        for server in self.config.servers:
            watch = self.servers[server.name]
            if watch.up and watch.ready_at is None:
                watch.on_work(tree.work_of(watch.pid), time.monotonic())
            down = not watch.up and bool(server.gpus)
            watch.gpu_holder = await asyncio.to_thread(self.gpus.holder, server.gpus) if down else None
            if server.gpus:
                self.gpu_memory[server.name] = await asyncio.to_thread(self.gpus.memory, server.gpus)
        self.gpu_lost = self.gpu_lost or await asyncio.to_thread(self.gpus.lost)
        if self.gpu_lost:
            self.wake()
