"""The faults. Each is done to a running appliance and undone within seconds; what follows is the appliance's affair."""

from __future__ import annotations

import contextlib
import mmap
import os
import random
import shutil
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dsv4_pd.run.guard.watch import tree
from support.appliance import Appliance

from chaos import gpu, hostile, network, stranger, who
from chaos.bounds import DEATH, NOTHING, SILENCE, STRANGER
from chaos.isolate import isolated

Act = Callable[[Appliance, random.Random], str]


def pid_of(appliance: Appliance, name: str) -> int:
    """A program's main process; 0 while there is none."""
    if name in ("guard", "supervisord"):
        mark = b"dsv4_pd\0guard" if name == "guard" else b"supervisor.supervisord"
        for pid in _ours(appliance):
            with contextlib.suppress(OSError):
                if mark in (Path("/proc") / str(pid) / "cmdline").read_bytes():
                    return pid
        return 0
    return int(appliance.health().get("roles", {}).get(name, {}).get("pid") or 0)


def _ours(appliance: Appliance) -> list[int]:
    return list(appliance.pids())


def _scheduler(appliance: Appliance, name: str) -> int:
    """The server's scheduler process, which computes; it names itself."""
    for pid in tree.members(pid_of(appliance, name)):
        with contextlib.suppress(OSError):
            if b"scheduler" in (Path("/proc") / str(pid) / "cmdline").read_bytes().split(b"\0")[0]:
                return pid
    return 0


def _signal(pid: int, number: int) -> bool:
    if pid:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            return True
    return False


def kill(*names: str) -> Act:
    """kill -9 of main processes, at once."""

    def act(appliance: Appliance, choose: random.Random) -> str:
        drawn = who.drawn(appliance, choose, *names)
        pids = [pid_of(appliance, name) for name in drawn]
        for pid in pids:
            _signal(pid, signal.SIGKILL)
        return f"kill -9 {' and '.join(drawn)}"

    act.about = f"kill {' and '.join(names)}"  # type: ignore[attr-defined]
    return act


def kill_scheduler(appliance: Appliance, choose: random.Random) -> str:
    name = choose.choice(who.servers(appliance))
    _signal(_scheduler(appliance, name), signal.SIGKILL)
    return f"kill -9 {name}'s scheduler"


def kill_during_restart(appliance: Appliance, choose: random.Random) -> str:
    if len(who.servers(appliance)) < 2:
        return "nothing: there is one server"
    first, second = choose.sample(who.servers(appliance), 2)
    _signal(pid_of(appliance, first), signal.SIGKILL)
    time.sleep(choose.uniform(2, 8))
    _signal(pid_of(appliance, second), signal.SIGKILL)
    return f"kill -9 {first}, then {second} during the restart"


def pause(appliance: Appliance, choose: random.Random) -> str:
    """-STOP, seconds later -CONT."""
    names = who.servers(appliance)
    return _pause(appliance, choose, (*names, "router", "front", *(f"{name}'s scheduler" for name in names)))


def pause_guard(appliance: Appliance, choose: random.Random) -> str:
    """The same of who only watches."""
    return _pause(appliance, choose, ("guard",))


def _pause(appliance: Appliance, choose: random.Random, names: tuple[str, ...]) -> str:
    name = choose.choice(names)
    role = name.removesuffix("'s scheduler")
    pid = _scheduler(appliance, role) if name != role else pid_of(appliance, role)
    seconds = choose.uniform(1, 8)
    if _signal(pid, signal.SIGSTOP):
        time.sleep(seconds)
        _signal(pid, signal.SIGCONT)
    return f"-STOP {name}, -CONT after {seconds:.0f} s"


def steal_port(appliance: Appliance, choose: random.Random) -> str:
    """A stranger takes a server's port while it is down, for some seconds."""
    name = choose.choice(who.servers(appliance))
    port = appliance.members[name].port
    with socket.socket() as thief:
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _signal(pid_of(appliance, name), signal.SIGKILL)
        for _ in range(100):
            with contextlib.suppress(OSError):
                thief.bind(("127.0.0.1", port))
                thief.listen()
                break
            time.sleep(0.02)
        time.sleep(choose.uniform(2, 10))
    return f"kill -9 {name}, its port taken meanwhile"


def fill_run_folder(appliance: Appliance, choose: random.Random) -> str:
    """The tmpfs of the run folder is full for some seconds."""
    run = appliance.root / "run"
    filler, seconds = run / "filler", choose.uniform(3, 8)
    free = shutil.disk_usage(run).free
    with contextlib.suppress(OSError), filler.open("wb") as file:
        for _ in range(free // 65536 + 2):
            file.write(b"\0" * 65536)
            file.flush()
    time.sleep(seconds)
    filler.unlink(missing_ok=True)
    return f"run folder full for {seconds:.0f} s"


def jump_clock(appliance: Appliance, choose: random.Random) -> str:
    """The wall clock of every process of the appliance jumps, and later back."""
    shift, seconds = choose.choice((-86400, -3600, 3600, 86400)), choose.uniform(3, 8)
    for value in (shift, 0):
        with (appliance.root / "clock").open("r+b") as file, mmap.mmap(file.fileno(), 8) as page:
            page[:8] = struct.pack("q", value)
        time.sleep(seconds)
    return f"wall clock {shift:+d} s, back after {seconds:.0f} s"


def flood_log(appliance: Appliance, choose: random.Random) -> str:
    """A server writes 20 MB of log as fast as it is read."""
    name = choose.choice(who.servers(appliance))
    line = b"[2026-11-29 15:20:11] INFO: noise with Scheduler hit an exception: inside " + b"x" * 120 + b"\n"
    deadline = time.monotonic() + 20
    with contextlib.suppress(OSError), (Path("/proc") / str(pid_of(appliance, name)) / "fd" / "1").open("wb") as pipe:
        for _ in range(20_000_000 // (len(line) * 300)):
            pipe.write(line * 300)
            if time.monotonic() > deadline:
                break
    return f"log flood of {name}"


def stop_guard(appliance: Appliance, _: random.Random) -> str:
    """-STOP without -CONT: `serve` has to replace it."""
    stopped = pid_of(appliance, "guard")
    _signal(stopped, signal.SIGSTOP)
    begun = time.monotonic()
    while pid_of(appliance, "guard") == stopped and time.monotonic() - begun < 60:
        time.sleep(0.2)
    return f"-STOP guard, replaced after {time.monotonic() - begun:.0f} s"


def stop_scheduler(appliance: Appliance, choose: random.Random) -> str:
    """-STOP without -CONT: the guard has to restart that server."""
    name = choose.choice(who.servers(appliance))
    before, pid = pid_of(appliance, name), _scheduler(appliance, name)
    _signal(pid, signal.SIGSTOP)
    begun = time.monotonic()
    while pid_of(appliance, name) in (0, before) and time.monotonic() - begun < 180:
        time.sleep(0.2)
    return f"-STOP {name}'s scheduler, replaced after {time.monotonic() - begun:.0f} s"


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault. `bound`: the row of docs/health.md that says how soon the state tells of it. A reload costs
    half a minute on two idle cores, so the cheap kinds have the greater weight. `needs`: whether it can be done here
    and to this appliance.
    """

    weight: int
    act: Act
    bound: str
    needs: Callable[[Appliance], bool] = lambda _: True

    @property
    def name(self) -> str:
        """The function that does it, and for those that are made what it is about."""
        return getattr(self.act, "about", self.act.__name__)


FAULTS: tuple[Fault, ...] = (
    Fault(2, kill("prefill"), DEATH),
    Fault(2, kill("decode"), DEATH),
    Fault(2, kill("router"), DEATH),
    Fault(2, kill("front"), DEATH),
    Fault(2, kill("guard"), NOTHING),
    Fault(1, kill("supervisord"), DEATH),
    Fault(1, kill("prefill", "decode"), DEATH),
    Fault(1, kill("decode", "guard"), DEATH),
    Fault(1, kill("router", "guard"), DEATH),
    Fault(1, kill_scheduler, DEATH),
    Fault(1, kill_during_restart, DEATH),
    Fault(3, pause, SILENCE),
    Fault(1, pause_guard, NOTHING),
    Fault(1, stop_guard, NOTHING),
    Fault(1, stop_scheduler, DEATH),
    Fault(1, steal_port, DEATH),
    Fault(2, fill_run_folder, NOTHING),
    Fault(2, jump_clock, NOTHING),
    Fault(1, flood_log, NOTHING),
    Fault(2, hostile.inject_log, NOTHING),
    Fault(2, hostile.huge_prompt, NOTHING),
    Fault(1, hostile.hostile_pattern, NOTHING),
    Fault(1, hostile.flood_connections, NOTHING),
    Fault(1, hostile.exhaust_guard, NOTHING),
    Fault(1, hostile.exhaust_router, SILENCE),
    Fault(1, hostile.exhaust_front, SILENCE),
    Fault(1, stranger.add_stranger, STRANGER),
    Fault(1, gpu.hold_memory, DEATH, gpu.available),
    Fault(1, network.cut_link_briefly, SILENCE, network.available),
    Fault(1, network.cut_link, DEATH, network.available),
    Fault(1, network.slow_link, SILENCE, network.available),
    Fault(1, network.fill_shared_memory, DEATH, lambda _: isolated()),
)


def deal(choose: random.Random, table: Sequence[Fault]) -> Iterator[Fault]:
    """The faults in the order in which they are done: each kind once, in a random order, and then by weight."""
    yield from choose.sample(table, len(table))
    while True:
        yield choose.choices(table, [fault.weight for fault in table])[0]


def environment(root: Path, library: Path) -> dict[str, Any]:
    """What the appliance needs so that its clock can be moved."""
    (root / "clock").write_bytes(struct.pack("q", 0))
    return {"LD_PRELOAD": str(library), "CHAOS_CLOCK": str(root / "clock")}
