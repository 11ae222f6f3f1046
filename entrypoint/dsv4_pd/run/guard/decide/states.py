"""The guard's vocabulary: states and their groups, what is observed, what is remembered, what can be done."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum

from dsv4_pd.run.states import StateName

CANARY_FAILURES = 2  # one failure may be the tail of an incident that is already over


class Phase(StrEnum):
    """How far one program's start has come, in order."""

    DOWN = "down"
    START = "start"
    WEIGHTS = "weights"
    KV = "kv"
    GRAPHS = "graphs"
    WARMUP = "warmup"
    READY = "ready"


class Answer(StrEnum):
    """The last answer to a probe. SILENT is a time-out: slow is not dead."""

    YES = "yes"
    NO = "no"
    SILENT = "silent"


class Remedy(StrEnum):
    """What a fatal log line asks for."""

    RESTART_ROLE = "restart-role"
    RESTART_PAIR = "restart-pair"
    EXIT = "exit"
    EXPLAIN = "explain"  # nothing by itself: it explains what is seen otherwise


@dataclass(frozen=True, slots=True)
class Complaint:
    """A fatal line that a server logged: what it asks for. Before the server served it decides together with a `/ready`
    that is not YES; afterwards anybody may have made the server log it, so it only explains (see `policy`).
    """

    remedy: Remedy
    cause: str
    exit_code: int = 1
    at: float = 0.0  # when the guard read it
    memory: bool = False  # a card ran out of it: advice is added to the cause
    short: float = 0.0  # bytes that were missing, as far as the line says


@dataclass(frozen=True, slots=True)
class RoleView:
    """One program as it is now. `deaths` counts its exits, so it also names its current incarnation."""

    name: str
    up: bool  # a live process
    idle: bool  # supervisord will not start it by itself
    ready: Answer
    deaths: int
    started: float  # of this incarnation; 0 before the first
    progress: float  # last sign of a start that moves: a log line, a read, a compiler
    served: bool = False  # this incarnation has answered /ready with yes, so clients may have reached it
    serving_since: float | None = None  # this guard's first yes of this incarnation to /ready
    worked: float = 0.0  # last sign of work that no client can forge: tokens moved, its /health was answered
    compiling: tuple[float, float] | None = None  # first and last look that saw a compiler in its process tree
    refused: float = 0.0  # when the newest /ready that said no was asked; 0: none did since the last yes
    ended: float = 0.0  # when its last incarnation ended
    lost: str = ""  # which child that it can't do without has ended, and how
    phase: Phase = Phase.DOWN
    exit: str = ""  # how the last incarnation ended
    health: Answer = Answer.YES  # NO: its own test generation failed
    complaint: Complaint | None = None
    detail: str = ""  # for people: "weights 42 %"
    gpu_holder: str | None = None  # who holds its GPUs' memory while it is down
    model: str = ""  # the stamp of the model's files when it was started; empty when unknown
    bootstrap: Answer = Answer.YES  # what its bootstrap port says; only a prefill has one
    unproved: tuple[str, ...] = ()  # plugins that have not proved themselves in it, and why
    gpu_fault: str = ""  # an error of one of its cards that only a reset fixes
    gpu_note: tuple[float, str] = (0.0, "")  # when the driver reported the last error of one of its cards, and which
    unlisted: bool = False  # the router gives it no requests, among several members
    cold: bool = False  # it has not run every class of request yet
    remote: bool = False  # a member on another host: its own guard acts on it, this one only sees and tells
    barred: str = ""  # why the router may not give requests to such a one
    busy: bool = False  # requests run or wait in it


@dataclass(frozen=True, slots=True)
class CanaryView:
    """The end-to-end request: when the path was last proved, and how often it failed since."""

    sent: float | None = None  # when the last passing canary was sent
    proved: float | None = None  # last proof: a canary, or answers to clients that came through
    failures: int = 0
    failure: str = ""  # which hop, and how


@dataclass(frozen=True, slots=True)
class PathView:
    """One route among several, and its own proof: what the guard sent to these members themselves."""

    members: tuple[str, ...]
    canary: CanaryView = CanaryView()


@dataclass(frozen=True, slots=True)
class Verdict:
    """How the appliance ends."""

    code: int
    cause: str
    role: str | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything that `next_state` may know about the world at one instant (monotonic seconds)."""

    now: float
    servers: tuple[RoleView, ...]
    router: RoleView | None  # None: a member of several hosts, whose router is elsewhere
    canary: CanaryView = CanaryView()  # through front and router, as a client's request
    paths: tuple[PathView, ...] = ()  # routes that are proved one by one; empty where there is one
    gpu_lost: str | None = None
    fault: Verdict | None = None  # of the guard itself: its port is taken
    stop: str | None = None  # who asked for the stop
    front: RoleView | None = None  # None: nothing stands before the router

    @property
    def roles(self) -> tuple[RoleView, ...]:
        """Every program that the guard looks after."""
        return (*self.servers, *self.way)

    @property
    def way(self) -> tuple[RoleView, ...]:
        """What every request passes before it comes to a server, the last one first."""
        return tuple(role for role in (self.router, self.front) if role is not None)

    @property
    def here(self) -> tuple[RoleView, ...]:
        """The servers that this guard acts on."""
        return tuple(role for role in self.servers if not role.remote)

    @property
    def routes(self) -> tuple[tuple[str, ...], ...]:
        """The members that together answer a request; where there is one route, everybody is needed."""
        return tuple(path.members for path in self.paths) or (tuple(role.name for role in self.servers),)

    @property
    def bootstrap(self) -> Answer:
        """The worst that a bootstrap port says."""
        heard = {role.bootstrap for role in self.servers}
        return next((answer for answer in (Answer.NO, Answer.SILENT) if answer in heard), Answer.YES)

    @property
    def missing_proof(self) -> tuple[str, ...]:
        """Every plugin that has not proved itself."""
        return tuple(text for role in self.servers for text in role.unproved)

    def through(self, name: str) -> float:
        """When the last canary was sent that came through a server."""
        own = [path.canary.sent or 0.0 for path in self.paths if name in path.members]
        return max(own, default=self.canary.sent or 0.0)


@dataclass(frozen=True, slots=True)
class MemberBudget:
    """The restarts of one member while others serve: they cost nobody else's budget."""

    name: str
    charges: tuple[float, ...] = ()
    failures: int = 0  # restarts since it last served for long enough
    not_before: float = 0.0
    cause: str = ""


@dataclass(frozen=True, slots=True)
class State:
    """The state and the little that policy must remember from one instant to the next."""

    name: StateName
    reason: str
    since: float
    down_since: float  # since when clients are not served, while they are not
    serving_since: float | None = None  # since when they are, while they are
    cause: str = ""  # what the current recovery is for
    origin: str = ""  # what began it: the first cause since the last READY
    deaths: tuple[tuple[str, int], ...] = ()  # exits that were already dealt with
    condemned: frozenset[tuple[str, int]] = frozenset()  # incarnations that must end
    charges: tuple[float, ...] = ()  # times of the restarts inside the window
    failures: int = 0  # restarts since the last stable READY
    not_before: float = 0.0  # back-off
    settled: float | None = None  # since when every end is up and only the path is unproved
    quiet: tuple[tuple[str, float], ...] = ()  # which probe has heard no yes since when, of programs that served
    held_since: float | None = None  # since when foreign GPU memory keeps a start waiting
    verdict: Verdict | None = None
    members: tuple[MemberBudget, ...] = ()  # of those that failed while others served
    partial: float | None = None  # since when some members could serve while others are missing

    def budget(self, name: str) -> MemberBudget:
        """A member's own."""
        return next((one for one in self.members if one.name == name), MemberBudget(name))


class Act(Enum):
    """Kinds of action; each is safe to repeat until the world shows its effect."""

    START = "start"
    KILL = "kill"
    REGISTER = "register"  # tell the router about its workers
    ABORT = "abort"  # end what waits in a server for its peer, which is gone
    STOP = "stop"  # no new work, finish what runs
    SHUTDOWN = "shutdown"  # leave nothing behind and end supervisord


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do now."""

    act: Act
    name: str = ""


def initial(now: float, safe: str | None = None) -> State:
    """The state before anything was observed; `safe` says why nothing may start."""
    if safe:
        return State(StateName.SAFE, safe, now, now)
    return State(StateName.BOOTING, "starting", now, now)
