"""What must hold while an appliance is attacked: it says READY, and an ordinary client notices nothing."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from chaos.run import Watcher
from dsv4_pd.run.states import SERVING
from dsv4_pd.run.supervision import rpc
from support.appliance import Appliance

from attacks.beside import Beside, beside
from attacks.wire import Target

GROWTH_MIB = 250  # of all programs together, for one kind of attack
SLOWEST_S = 10.0  # of small requests beside it, on two cores that others use too; alone they take 0.2 s


def programs(appliance: Appliance) -> dict[str, int]:
    """What this appliance runs, by supervisord's names, and the pid of each."""
    supervisor = rpc.Waiting(appliance.root / "run" / "supervisor.sock")
    return {name: supervisor.process(name).pid for name in (*appliance.members, "router", "front", "guard")}


@dataclass(slots=True)
class Memory:
    """Resident memory of some processes together, in MiB; `most` is a peak: what is freed later was needed, too."""

    pids: tuple[int, ...]
    most: int = 0
    end: threading.Event = field(default_factory=threading.Event)

    def now(self) -> int:
        total = 0
        for pid in self.pids:
            with contextlib.suppress(OSError, IndexError):
                total += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return total * 4096 >> 20

    def run(self) -> None:
        while not self.end.wait(0.3):
            self.most = max(self.most, self.now())


@contextmanager
def unharmed(appliance: Appliance) -> Iterator[Target]:
    """Judges when the block is over."""
    appliance.wait_for("READY")
    target, watcher = Target(appliance.ports["DSV4_PORT"]), Watcher(appliance)
    expected = Beside(target.port).ask()
    pids, memory = programs(appliance), Memory(appliance.pids())
    before = memory.now()
    watched: tuple[Watcher | Memory, ...] = (watcher, memory)
    threads = [threading.Thread(target=each.run, daemon=True) for each in watched]
    for thread in threads:
        thread.start()
    try:
        with beside(target.port, expected) as client:
            yield target
    finally:
        for each, thread in zip(watched, threads, strict=True):
            each.end.set()
            thread.join()
    states = {state for _, state in watcher.timeline.changes}
    print(f"{len(client.seconds)} small requests, slowest {max(client.seconds):.1f} s; memory {before} MiB, at "
          f"most {memory.most} MiB; {sorted(states)}; {client.failures[:3]}")  # fmt: skip
    assert client.failures == []
    assert max(client.seconds) < SLOWEST_S
    assert programs(appliance) == pids, "a program was replaced"
    assert states <= SERVING, states
    assert appliance.health()["restarts"]["spent"] == 0
    assert memory.most - before < GROWTH_MIB
    assert [(name, reply.internals) for name, reply in target.replies if reply.internals] == []
