"""Faults, one after the other, under load: what is done, what is waited for, what is seen."""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from dsv4_pd.run.states import SERVING
from support.appliance import Appliance

from chaos import bounds, faults, who
from chaos.account import Disturbance, Timeline, sums
from chaos.broken import Broken
from chaos.clients import Clients

BACK_S = 420.0  # a reload takes half a minute on two idle cores, and much longer on busy ones
EACH = 50  # requests that are counted, for each fault
QUOTA_S = 120.0  # how long they are waited for after one fault
STEADY_S = 3.0


@dataclass(slots=True)
class Watcher:
    """Reads the published state 20 times a second, on a clock of its own."""

    appliance: Appliance
    timeline: Timeline = field(default_factory=lambda: Timeline([]))
    end: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        while not self.end.is_set():
            state = self.appliance.state()
            if state == "none":  # the file is being written in place, on a full disk: what it said before holds
                pass
            elif not self.timeline.changes or state != self.timeline.changes[-1][1]:
                self.timeline.changes.append((time.monotonic(), state))
            self.end.wait(0.05)


@dataclass(frozen=True, slots=True)
class Done:
    """One fault that was done, in seconds: doing it, until READY was back and held, until enough was counted."""

    number: int
    fault: str
    did: str
    act_s: float
    back_s: float
    count_s: float
    back: bool
    broken: str = ""


@dataclass(slots=True)
class Report:
    """What the run showed."""

    done: list[Disturbance] = field(default_factory=list)
    never_back: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)  # what the faults themselves found
    leftovers: list[str] = field(default_factory=list)
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """Which faults of which sequence. The sequence is the seed's alone, so that a slice is the same whoever did the
    slices before it.
    """

    seed: int
    first: int  # number of the first fault of this slice, from 1
    last: int
    only: str = ""
    clients: int = 4
    deadline: float = float("inf")  # in monotonic seconds; no fault begins later

    def deal(self, table: Sequence[faults.Fault]) -> list[tuple[int, faults.Fault]]:
        """(number, fault) of this slice."""
        dealt = faults.deal(random.Random(self.seed), table)
        return list(enumerate(islice(dealt, self.first - 1, self.last), self.first))

    def choices(self, number: int) -> random.Random:
        """What decides the details of one fault."""
        return random.Random(f"{self.seed}/{number}")


def here(appliance: Appliance, only: str = "") -> list[faults.Fault]:
    """The faults that can be done on this machine, and to this appliance."""
    wanted = [fault for fault in faults.FAULTS if re.search(only, fault.name)]
    table = [fault for fault in wanted if fault.needs(appliance)]
    if left_out := [fault.name for fault in wanted if fault not in table]:
        print(f"left out, what they need is not here: {', '.join(left_out)}", flush=True)
    return table


@dataclass(slots=True)
class Run:
    """A running appliance under load, and who is told of each fault when the next one begins, or all is over."""

    appliance: Appliance
    clients: Clients
    watcher: Watcher
    report: Report = field(default_factory=Report)

    def disturb(self, order: Order, tell: Callable[[Done], None] = lambda _: None) -> None:
        """All faults of a slice; `tell` is called after each."""
        for number, fault in order.deal(here(self.appliance, order.only)):
            if time.monotonic() > order.deadline:
                break
            done = self._one(number, fault, order)
            tell(done)
            if not done.back:
                self.report.never_back.append(done.did)
                break

    def _one(self, number: int, fault: faults.Fault, order: Order) -> Done:
        at, mark = time.monotonic(), len(self.clients.outcomes.requests)
        did, broken = act(fault, self.appliance, order.choices(number))
        undone = time.monotonic()
        self.report.broken += [broken] if broken else []
        self.report.done.append(
            Disturbance(at, undone, bounds.seconds(fault.bound, several=who.several(self.appliance)))
        )
        back = back_again(self.appliance)
        steady = time.monotonic()
        if back:
            self._count(mark)
        counted = time.monotonic()
        out = Timeline(self.watcher.timeline.changes[:]).outside(SERVING, counted)
        print(f"{number:3}/{order.last} {did:<66} took {counted - at:6.1f} s, not serving so far {out:6.1f} s"
              f"{'' if back else '  NOT BACK'}", flush=True)  # fmt: skip
        return Done(number, fault.name, did, undone - at, steady - undone, counted - steady, back, broken)

    def _count(self, mark: int) -> None:
        """Wait until enough requests were counted since then for one in a thousand to mean something."""
        deadline = time.monotonic() + QUOTA_S
        while time.monotonic() < deadline:
            timeline = Timeline(self.watcher.timeline.changes[:])
            if sums(self.clients.outcomes.requests[mark:], timeline, self.report.done[-1:]).ready >= EACH:
                return
            time.sleep(0.5)


def act(fault: faults.Fault, appliance: Appliance, choose: random.Random) -> tuple[str, str]:
    """Do it: (what was done, what it found broken itself, which fails the run)."""
    try:
        return fault.act(appliance, choose), ""
    except Broken as error:
        return f"{fault.name}: {error}", str(error)


def back_again(appliance: Appliance) -> bool:
    """Whether READY is back and holds; the state may still be that of before the fault, so it must hold for a while.

    With several members DEGRADED may be one that is still away: all have to be back.
    """
    wanted = {"READY"} if who.several(appliance) else SERVING
    deadline, steady = time.monotonic() + BACK_S, time.monotonic()
    while time.monotonic() < deadline and appliance.process.poll() is None:
        health = appliance.health()
        fresh = time.monotonic() - health.get("heartbeat_monotonic", 0.0) < 3
        if health.get("state") not in wanted or not fresh:
            steady = time.monotonic()
        elif time.monotonic() - steady > STEADY_S:
            return True
        time.sleep(0.05)
    return False
