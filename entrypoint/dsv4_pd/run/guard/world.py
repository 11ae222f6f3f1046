"""The guard's observers: loops that probe, follow logs and ask supervisord, and the one `Observation` they make up."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from dsv4_pd.plan import model_files
from dsv4_pd.plan.guard_config import GuardConfig, ServerConfig
from dsv4_pd.run.follow import Follower
from dsv4_pd.run.guard import canary, compilers, conditions, excuses, plugin_proof, probes, traffic, tree
from dsv4_pd.run.guard.gpus import Gpus
from dsv4_pd.run.guard.path_proof import PathProof
from dsv4_pd.run.guard.probes import SLOW, Probes
from dsv4_pd.run.guard.processes import Processes
from dsv4_pd.run.guard.routes import Route, Routes
from dsv4_pd.run.guard.signatures import Signatures
from dsv4_pd.run.guard.states import Answer, Observation, Verdict
from dsv4_pd.run.guard.supervisor import Supervisor
from dsv4_pd.run.guard.watch import Watch

TOKENS = "sglang:realtime_tokens_total"  # moves with every batch, also in the middle of a long prefill
UNNOTICED_S = 6.0  # after a server's end: two health checks of the router, and some
CAPACITY = "sglang:max_total_num_tokens"
log = logging.getLogger("guard")


class World:
    """Everything that the guard observes. `wake` is called when something changed that can't wait for the next tick."""

    def __init__(
        self, config: GuardConfig, supervisor: Supervisor, probes: Probes, gpus: Gpus, wake: Callable[[], None]
    ) -> None:
        signatures = Signatures(Path(config.signatures).read_text(encoding="utf-8"))
        self.config, self.supervisor, self.probes, self.gpus, self.wake = config, supervisor, probes, gpus, wake
        self.servers = {server.name: Watch(server.name, signatures) for server in config.servers}
        self.router = Watch("router")
        for server in config.servers:
            self.servers[server.name].bootstrap = Answer.NO if server.bootstrap_url else Answer.YES
        self.path = PathProof(config.canary_interval)
        self.traffic = traffic.Traffic()
        self.routes = Routes(config)
        self.gpu_lost: str | None = None
        self.gpu_memory: dict[str, Any] = {}
        self.link: dict[str, float] = {}
        self.stop: str | None = None
        self.fault: Verdict | None = None
        self.processes = Processes(supervisor, {**self.servers, "router": self.router}, self._on_process)
        self._followers = {server.name: Follower(Path(server.log)) for server in config.servers}
        self._proved: dict[str, int] = {}  # server -> its process, once its plugins have proved themselves in it
        self._sent: dict[str, dict[str, float]] = {}  # server -> its metrics
        self._answered: dict[str, float] = {}  # server -> first tokens that it has given out
        self._trouble: dict[str, int | None] = {}  # sense -> what keeps it from seeing

    def observe(self) -> Observation:
        """The world as it is now."""
        return Observation(
            now=time.monotonic(),
            servers=tuple(watch.view() for watch in self.servers.values()),
            router=self.router.view(),
            canary=self.path.view,
            paths=self.routes.views(),
            gpu_lost=self.gpu_lost,
            fault=self.fault,
            stop=self.stop,
        )

    @property
    def missing_proof(self) -> tuple[str, ...]:
        """Every plugin that has not proved itself."""
        return tuple(text for watch in self.servers.values() for text in watch.unproved)

    def watch(self, name: str) -> Watch | None:
        """The record of a program that the guard looks after."""
        return self.router if name == "router" else self.servers.get(name)

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        """All observers; each is one loop, so that at most one probe of a kind is in flight."""
        quick = self.config.probe_interval
        found = [
            self.processes.take_events(),
            self._every(5.0, self.processes.poll),
            self._every(quick, self._probe_router),
            self._every(0.2, self._canary),
            self._every(0.25, self._follow),
            self._every(0.25, self._proof),
            self._every(self.config.metrics_interval, self._slow_facts),
            self._every(self.config.metrics_interval, self._model_files),
            self._every(self.config.metrics_interval, self._gpus),
        ]
        for server in self.config.servers:
            found += [
                self._every(quick, self._probe_ready, server),
                self._every(self.config.metrics_interval, self._metrics, server),
                self._every(self.config.health_interval, self._probe_health, server),
                self._every(self.config.metrics_interval, self._compilers, server),
            ]
            if server.bootstrap_url:
                found.append(self._every(quick, self._probe_bootstrap, server))
        found += [self._every(0.2, self._canary_to, route) for route in self.routes]
        return found

    async def _every(self, seconds: float, sense: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        while True:
            try:
                await sense(*args)
                self._trouble.pop(sense.__name__, None)
            except OSError as error:  # no descriptor, no memory: a shortage that passes, not a defect of ours
                if self._trouble.get(sense.__name__) != error.errno:
                    log.warning("%s: %s; trying again", sense.__name__.strip("_"), error)
                self._trouble[sense.__name__] = error.errno
            await asyncio.sleep(seconds)

    def _on_process(self, died: str) -> None:
        """A death takes the proof of its paths away: where there is one, any death does."""
        if died and (died == "router" or not self.routes):
            self.path.forget()
        if died:
            self.routes.forget(died)
        self.wake()

    # --- probes -------------------------------------------------------------------------------------------------

    async def _probe_ready(self, server: ServerConfig) -> None:
        watch = self.servers[server.name]
        if not watch.up:
            return
        pid, asked = watch.pid, time.monotonic()
        answer = await self.probes.status(f"{server.url}/ready")
        if watch.pid == pid:
            before = watch.ready
            detail = "/ready says no" if answer is Answer.NO and watch.served else ""
            watch.on_ready(answer, time.monotonic(), detail, asked)
            if answer is not before:
                self.wake()

    async def _probe_health(self, server: ServerConfig) -> None:
        watch = self.servers[server.name]
        if watch.ready_at is None or not watch.up:
            return
        pid = watch.pid
        answer = await self.probes.status(f"{server.url}/health", SLOW)
        if watch.pid == pid:
            watch.on_health(answer, time.monotonic())

    async def _probe_bootstrap(self, server: ServerConfig) -> None:
        watch = self.servers[server.name]
        before = watch.bootstrap
        up = conditions.can_serve(watch.view())
        watch.bootstrap = await self.probes.status(f"{server.bootstrap_url}/health") if up else Answer.NO
        if watch.bootstrap is not before:
            self.wake()

    async def _probe_router(self) -> None:
        if not self.router.up:
            return
        if not self._can_serve():
            # Its answer is known, and it logs each "no" as an error; what it said of other servers counts no more.
            self.router.on_ready(Answer.NO, time.monotonic(), "waits for the servers")
            return
        pid, before = self.router.pid, self.router.ready
        if self.routes:
            answer, why, unlisted = await self.probes.listing(self.config.router_url, self.config.servers)
        else:
            answer, why = await self.probes.router(self.config.router_url, self.config.servers)
            unlisted = ()
        if self.router.pid == pid:
            for name, watch in self.servers.items():
                watch.unlisted = name in unlisted
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
        self._sent[server.name] = values
        self.link = probes.link_of(probes.summed(self._sent.values())) or self.link
        first, last = server.does != "decode", server.does != "prefill"
        self.traffic.on_sample(server.name, values, time.monotonic(), first=first, last=last)
        self.routes.on_sample(server.name, values, time.monotonic(), first=first, last=last)
        if last:
            self._answered[server.name] = values.get(traffic.CROSSED, 0.0)
            self.path.on_first_tokens(sum(self._answered.values()), time.monotonic())

    async def _compilers(self, server: ServerConfig) -> None:
        watch = self.servers[server.name]
        if watch.up and watch.pid:
            pid, found = watch.pid, await asyncio.to_thread(compilers.run, watch.pid)
            if watch.pid == pid:
                watch.on_compilers(found, time.monotonic())

    # --- the path -----------------------------------------------------------------------------------------------

    async def _canary(self) -> None:
        view = self.observe()
        if not conditions.can_serve(view.router) or not self._can_serve(bound=True) or not self.path.due(view):
            return
        if self.routes and any(role.ended and view.now - role.ended < UNNOTICED_S for role in view.servers):
            return  # the router may not have noticed yet
        deaths = [role.deaths for role in view.roles]
        self.path.on_sent(time.monotonic())
        limits, first = self.config.limits, self.path.view.sent is None
        bound = limits.first_canary_timeout if first else limits.canary_timeout
        if self.routes:
            able = [one for one in self.config.servers if conditions.can_serve(self.servers[one.name].view())]
            result = await canary.send(self.config, self.probes, bound, able)
        else:
            result = await canary.send(self.config, self.probes, bound)
        if deaths != [role.deaths for role in self.observe().roles]:
            return  # it was sent through a pair that is gone
        self.path.on_result(result, time.monotonic(), busy=self._excused(result))
        self.wake()

    def _excused(self, result: canary.CanaryResult) -> bool:
        views = [watch.view() for watch in self.servers.values()]
        moves = max(self.servers[one[0].name].moves_since(result.sent) for one in self.config.routes)
        return excuses.hold(result, views, self.traffic, moves, time.monotonic(), self.config.limits)

    def _can_serve(self, *, bound: bool = False) -> bool:
        """Whether the servers of a route can serve. `bound`: and no bootstrap port there says no."""
        return any(
            all(conditions.can_serve(view) and not (bound and view.bootstrap is Answer.NO) for view in views)
            for route in self.config.routes
            for views in [[self.servers[one.name].view() for one in route]]
        )

    async def _canary_to(self, route: Route) -> None:
        """One of several routes, past the router."""
        watches = [self.servers[name] for name in route.proof.members]
        views = [watch.view() for watch in watches]
        able = all(conditions.can_serve(view) and view.bootstrap is not Answer.NO for view in views)
        if not able or not route.proof.due(self.observe()):
            return
        deaths = [watch.deaths for watch in watches]
        route.proof.on_sent(time.monotonic())
        self.path.on_other()
        limits, first = self.config.limits, route.proof.view.sent is None
        bound = limits.first_canary_timeout if first else limits.canary_timeout
        result = await canary.send_to(self.config, self.probes, route.servers, bound)
        if deaths != [watch.deaths for watch in watches]:
            return
        views, now = [watch.view() for watch in watches], time.monotonic()
        busy = route.busy(result, views, watches[0].moves_since(result.sent), now, limits)
        route.proof.on_result(result, now, busy=busy)
        self.wake()

    # --- slow facts ---------------------------------------------------------------------------------------------

    def read_history(self) -> None:
        """What the logs said before this guard was started, so before its first look at them."""
        for name, follower in self._followers.items():
            while lines := follower.lines():
                self.servers[name].on_history(lines, time.monotonic())

    def clean_up_after(self, name: str) -> None:
        """A program's processes are all gone: read its log to the end, remove its shared memory."""
        watch = self.servers.get(name)
        while watch and (lines := self._followers[name].lines()):
            watch.on_lines(lines, time.monotonic())
        if watch:
            tree.unlink(watch.shared_memory)
            watch.shared_memory = frozenset()

    async def _follow(self) -> None:
        for name, follower in self._followers.items():
            lines = follower.lines()
            if lines:
                self.servers[name].on_lines(lines, time.monotonic())
                self.wake()

    async def _proof(self) -> None:
        """Proved once is proved for these processes."""
        groups = {name: watch.pid for name, watch in self.servers.items() if watch.pid}
        if len(groups) < len(self.servers) and not self.routes:
            return
        for name, group in groups.items():
            if self._proved.get(name) == group:
                continue
            asked = Path(self.config.record_dir), {name: group}, self.config.plugins, tree.group_of
            missing = await asyncio.to_thread(plugin_proof.missing, *asked)
            if self.servers[name].pid == group:
                self.servers[name].unproved = missing
                self._proved[name] = 0 if missing else group

    async def _model_files(self) -> None:
        """What each server found when it was started. A loop of its own: the folder may be a network's, and hang."""
        for watch in self.servers.values():
            if watch.pid and watch.model[0] != watch.pid:
                watch.model = (watch.pid, await asyncio.to_thread(self._model_stamp))

    def _model_stamp(self) -> str:
        source, revision = self.config.model_source, self.config.model_revision
        return model_files.stamp(model_files.find(source, revision, os.environ)) if source else ""

    async def gpus_are_free(self, name: str) -> bool:
        """Whether nobody holds the memory of a server's GPUs; who does is told to policy, which waits for a while."""
        watch, server = self.servers.get(name), next((s for s in self.config.servers if s.name == name), None)
        if watch is None or server is None or not server.gpus:
            return True
        await self.gpus.read()
        watch.gpu_holder = self.gpus.holder(server.gpus)
        return watch.gpu_holder is None and self.gpus.lost() is None

    async def _slow_facts(self) -> None:
        for server in self.config.servers:
            watch = self.servers[server.name]
            if watch.up and watch.survey_due(time.monotonic()):
                who, read = await asyncio.to_thread(tree.work_of, watch.pid)
                watch.on_work((who, read), time.monotonic())
                files = await asyncio.to_thread(tree.shared_memory, who)
                watch.shared_memory |= files  # read after the wait: others write it meanwhile
                if watch.up:
                    self.processes.follow_workers(watch, tree.workers(who))

    async def _gpus(self) -> None:
        """What NVML says of the cards. A loop of its own: the answer may take as long as its deadline."""
        await self.gpus.read()
        for server in self.config.servers:
            if server.gpus:
                self.gpu_memory[server.name] = self.gpus.memory(server.gpus)
            if self.servers[server.name].gpu_holder:
                self.servers[server.name].gpu_holder = self.gpus.holder(server.gpus)
        self.gpu_lost = self.gpu_lost or self.gpus.lost()
        if self.gpu_lost:
            self.wake()
