"""The guard process: observers → `next_state` → one place that publishes, logs and acts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Any

from dsv4_pd.plan.guard import config as configuration
from dsv4_pd.plan.guard.config import GuardConfig
from dsv4_pd.run.guard.act import hands
from dsv4_pd.run.guard.ask.probes import Probes
from dsv4_pd.run.guard.decide import policy
from dsv4_pd.run.guard.decide.states import Act, State, Verdict, initial
from dsv4_pd.run.guard.senses.gpus import Gpus
from dsv4_pd.run.guard.senses.loops import Senses
from dsv4_pd.run.guard.tell import memory, publish, starts
from dsv4_pd.run.guard.tell.document import document
from dsv4_pd.run.guard.watch import listener, tree
from dsv4_pd.run.guard.world import World
from dsv4_pd.run.ops import server as ops
from dsv4_pd.run.ops.telemetry import Telemetry
from dsv4_pd.run.states import CLOSING, PROVED, StateName
from dsv4_pd.run.supervision.rpc import Supervisor

TICK = 0.25
HEARTBEAT = 1.0
log = logging.getLogger("guard")


async def until_set(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, for at most so long. asyncio.wait_for would lose a TERM that comes with the event (Python
    3.11), and supervisord then waits for a guard that goes on.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


class Guard:
    """One guard: owns the state."""

    def __init__(self, config: GuardConfig) -> None:
        self.config = config
        self._woken = asyncio.Event()
        self.probes = Probes(config.api_key, _key(config.control_key_file), _key(config.front_key_file))
        self.supervisor = Supervisor(config.socket)
        cards = [uuid for server in config.servers for uuid in server.gpus]
        self.gpus = Gpus(cards, in_container=bool(config.about.get("container")))
        self.world = World(config, self.supervisor, self.probes, self._woken.set)
        self.senses = Senses(self.world, self.probes, self.gpus)
        self.hands = hands.Hands(self.world, self.senses.host, self.supervisor, self.probes)
        self._starts_file = Path(config.starts_file)
        self._events: deque[dict[str, Any]] = deque(maxlen=50)
        self._published = 0.0
        self._trouble: str | None = None
        self._shut = False
        self.state, self.starts = self._resume()

    def _resume(self) -> tuple[State, starts.Starts]:
        """The first state: fresh, or that of a guard that died under the same supervisord."""
        before, now = starts.read(self._starts_file), time.monotonic()
        for name, watch in self.world.servers.items():
            watch.last_times = dict(before.seconds.get(name, {}))
        verdict = publish.read_verdict(Path(self.config.exit_file), os.getppid())
        if verdict:
            name = StateName.STOPPING if verdict.code == 0 else StateName.FAILED
            return State(name, verdict.cause, now, now, verdict=verdict), before
        old = publish.read_json(Path(self.config.health_file))
        left = old.get("memory", {})
        if left and left.get("fingerprint") == self.config.fingerprint and old["state"] != StateName.SAFE:
            return memory.take_over(left, self.world, now), before
        safe = starts.safe_reason(before, self.config.fingerprint, self.config.safe_mode, self.config.safe_after)
        record = before if safe else before.begin(self.config.fingerprint)
        self._store(record)
        return initial(now, safe), record

    async def run(self) -> int:
        """Guard until supervisord ends us; returns the exit code of the guard process."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, self._asked_to_stop)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})  # what came while we were starting comes now
        main = asyncio.current_task()
        assert main is not None
        loop.add_signal_handler(signal.SIGTERM, main.cancel)
        ended = asyncio.create_task(listener.listen(self.world.processes.on_event))
        await self.world.processes.poll()
        self.senses.host.read_history()
        senses = [asyncio.create_task(loop) for loop in self.senses.loops()]
        server = asyncio.create_task(self._serve_ops())
        try:
            while not ended.done():
                self._step()
                self._raise_failures([*senses, server])
                await until_set(self._woken, TICK)
                self._woken.clear()
            self._orphaned()
        except asyncio.CancelledError:
            pass
        finally:
            for task in (*senses, ended, server):
                task.cancel()
            self.gpus.end()
            await self.probes.close()
            await self.supervisor.close()
        return 0

    def _step(self) -> None:
        """One decision: observe, decide, publish what changed, act."""
        before = self.state
        self.state, actions = policy.next_state(before, self.world.observe(), self.config.limits)
        if self.state.name is not before.name or self.state.cause not in ("", before.cause):
            self._on_transition(before)
        self._tell_restarts(before)
        changed = self.state.name is not before.name or self.state.reason != before.reason
        if changed or time.monotonic() - self._published >= HEARTBEAT:
            self._publish()
        for action in actions:
            self._shut = self._shut or action.act is Act.SHUTDOWN
            self.hands.apply(action)

    def _tell_restarts(self, before: State) -> None:
        """A member that is restarted while others serve changes the state once, and its own story goes on."""
        for one in self.state.members:
            if one.charges and one.charges != before.budget(one.name).charges:
                log.info("%s is restarted, while others serve: %s", one.name, one.cause)

    def _on_transition(self, before: State) -> None:
        state = self.state
        log.info("%s -> %s: %s", before.name.value, state.name.value, state.reason)
        self._events.append(
            {"time": round(time.time(), 3), "from": before.name.value, "to": state.name.value, "reason": state.reason}
        )
        if state.name in PROVED and self.starts.open:
            seconds = {name: watch.phase_times for name, watch in self.world.servers.items() if watch.phase_times}
            self.starts = self.starts.succeeded(seconds)
            self._store(self.starts)
        if state.name in CLOSING and state.verdict:
            self._conclude(state.verdict)

    def _conclude(self, verdict: Verdict) -> None:
        """Write the last word before anything is stopped, so that it stands even if the guard is killed now."""
        watch = self.world.watch(verdict.role or "")
        lines = list(watch.lines) if watch and verdict.code else []
        self._complain(publish.write_verdict(Path(self.config.exit_file), verdict, lines, os.getppid()))
        if verdict.code == 0 and self.starts.open:
            self._store(self.starts.withdrawn())
        elif self.starts.open:
            self._store(replace(self.starts, cause=verdict.cause))

    def _publish(self) -> None:
        self._published = time.monotonic()
        data = {**self.document(), "memory": memory.of(self.state, self.world)}
        self._complain(publish.write_json(Path(self.config.health_file), data))

    def document(self) -> dict[str, Any]:
        """What is published now."""
        return document(self.config, self.world, self.state, self._events)

    def _store(self, record: starts.Starts) -> None:
        self._complain(starts.write(self._starts_file, record))

    def _complain(self, trouble: str | None) -> None:
        """Log what keeps a file from being written, once for each kind."""
        if trouble and trouble != self._trouble:
            log.warning("cannot write %s", trouble)
        self._trouble = trouble

    def _asked_to_stop(self) -> None:
        self.world.stop = "stopped on request"
        self._woken.set()

    def _orphaned(self) -> None:
        """supervisord is gone, and with it whoever could restart anything; `serve` starts a new one."""
        if self._shut or self.state.name in CLOSING:
            return
        cause = "supervisord ended; its programs are ended with it"
        log.error(cause)
        self.state = replace(self.state, name=StateName.RECOVERING, reason=cause, since=time.monotonic())
        self._publish()
        for watch in self.world.local:
            if watch.pid:
                tree.kill_group(watch.pid)
        self.hands.sweep()

    async def _serve_ops(self) -> None:
        try:
            telemetry = Telemetry(self.config, self.document, lambda: self.probes.client)
            app = ops.application(self.document, telemetry, self.config.about, self.config.ops_host)
            await ops.serve(app, self.config.ops_host, self.config.ops_port)
        except OSError as error:
            taken = f"port {self.config.ops_port} is taken ({error.strerror}); free it, or set DSV4_OPS_PORT"
            self.world.fault = Verdict(75, taken)

    def _raise_failures(self, tasks: list[asyncio.Task[None]]) -> None:
        """An observer that raised is a defect: end the guard, supervisord starts a new one."""
        for task in tasks:
            if task.done() and not task.cancelled() and task.exception():
                raise task.exception()  # type: ignore[misc]


def _key(file: str) -> str:
    """A key of this run: to the router's administration, to the front. None in a plan that has no such program."""
    return Path(file).read_text(encoding="utf-8") if file else ""


def main(argv: list[str]) -> int:
    """Entry of `python -m dsv4_pd guard --config FILE`."""
    if len(argv) != 2 or argv[0] != "--config":
        print("usage: dsv4-pd guard --config FILE (started by supervisord)", file=sys.stderr)
        return 2
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(message)s")
    for library in ("httpx2", "httpcore2"):
        logging.getLogger(library).setLevel(logging.WARNING)  # else a line for each probe
    return asyncio.run(_guard(configuration.from_json(Path(argv[1]).read_text(encoding="utf-8"))))


async def _guard(config: GuardConfig) -> int:
    for notice in config.notices:
        log.warning("%s", notice)
    return await Guard(config).run()
