"""Process state from supervisord events, reconciled by polling; exits are detected immediately through pidfds."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from functools import partial

from dsv4_pd.run.guard.watch import endings
from dsv4_pd.run.guard.watch.listener import Event
from dsv4_pd.run.guard.watch.record import Watch
from dsv4_pd.run.supervision.rpc import FAILURES, UP, Supervisor


class Processes:
    """Keeps the watches' processes up to date. `changed(who died)` follows each change; blank where nobody did."""

    def __init__(self, supervisor: Supervisor, watches: Mapping[str, Watch], changed: Callable[[str], None]) -> None:
        self._supervisor, self._watches, self._changed = supervisor, watches, changed
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._order = asyncio.Lock()  # one change at a time, in order

    def on_event(self, event: Event) -> None:
        """Queue an event; its meaning is read from supervisord, one at a time and in order."""
        self._events.put_nowait(event)

    async def take_events(self) -> None:
        """The loop over queued events."""
        while True:
            event = await self._events.get()
            async with self._order:
                await self._take(event)

    async def _take(self, event: Event) -> None:
        watch = self._watches.get(event.name)
        if watch is None:
            return
        pid, how = event.pid if event.state in UP else 0, ""
        try:
            if event.state == "STARTING":
                pid = (await self._supervisor.process(event.name)).pid
            elif event.state not in UP and watch.alive:
                how = await self._how(event.name)
        except FAILURES:
            how = "ended (supervisord does not answer)"
        self._change(watch, partial(watch.on_event, event.state, time.monotonic(), pid, how))

    async def poll(self) -> None:
        """Compare with supervisord's own list, in case an event was missed."""
        asked = time.monotonic()
        try:
            processes = await self._supervisor.processes()
        except FAILURES:
            return  # the event pipe tells whether supervisord is gone
        async with self._order:
            for process in processes:
                watch = self._watches.get(process.name)
                if watch and watch.differs(process, asked):
                    if watch.pid and process.pid and process.pid != watch.pid:
                        self._change(watch, partial(watch.on_replaced, time.monotonic()))
                    await self._take(Event(process.name, process.state, process.pid))

    def _change(self, watch: Watch, change: Callable[[], None]) -> None:
        deaths, pid = watch.deaths, watch.pid
        change()
        if watch.pid != pid and watch.pid:
            self._follow_pid(watch)
        self._changed(watch.name if watch.deaths != deaths else "")

    def follow_workers(self, watch: Watch, pids: frozenset[int]) -> None:
        """Detect the exit of a child that the server can't do without: its main process may serve on for seconds."""
        for pid in pids - watch.workers:
            _when_ended(pid, partial(self._worker_ended, watch, watch.pid, pid, endings.name_of(pid)))
        watch.workers |= pids

    def _worker_ended(self, watch: Watch, main: int, worker: int, name: str) -> None:
        if watch.pid == main and watch.up:
            watch.on_lost_worker(endings.of_worker(worker, name))
            self._changed("")

    def _follow_pid(self, watch: Watch) -> None:
        """Detect the exit through the kernel: supervisord looks only once a second."""
        _when_ended(watch.pid, partial(self._ended, watch, watch.pid))

    def _ended(self, watch: Watch, pid: int) -> None:
        watch.on_gone(pid, time.monotonic())
        self._changed("")

    async def _how(self, name: str) -> str:
        """How a program's process ended, in words; only supervisord's log names a signal."""
        ending = endings.last_of(await self._supervisor_log(), name)
        if ending is None:
            ending = endings.Ending(code=(await self._supervisor.process(name)).exit_status)
        return endings.in_words(ending)

    async def _supervisor_log(self) -> str:
        try:
            return await self._supervisor.log_tail()
        except Exception:  # no log configured: the signal's name is a nicety
            return ""


def _when_ended(pid: int, tell: Callable[[], None]) -> None:
    """Call back once when a process has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return  # an old kernel, or gone already: supervisord's event comes anyway
    loop = asyncio.get_running_loop()

    def ended() -> None:
        loop.remove_reader(descriptor)
        os.close(descriptor)
        tell()

    loop.add_reader(descriptor, ended)
