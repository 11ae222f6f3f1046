"""One program as the guard sees it: a mutable record that events, probes and log lines write, read as a `RoleView`."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace

from dsv4_pd.plan.guard.config import MemoryBudget
from dsv4_pd.run.guard.decide.complaints import alive
from dsv4_pd.run.guard.decide.states import Answer, Complaint, Phase, Remedy, RoleView
from dsv4_pd.run.guard.watch.advice import advice
from dsv4_pd.run.guard.watch.signatures import Meaning, Signatures, message_of
from dsv4_pd.run.supervision.rpc import IDLE, UP, Process

_ORDER = list(Phase)
SURVEY_S = 60.0
FIRST_LINE = "server_args="  # every start of a server prints it first
SERVES = "The server is fired up and ready to roll!"
COMPILE_PAUSE_S = 10.0  # compilers that follow each other within it are one stretch of compiling
ENDED_BY_US = "ended by the guard, to be started again"


class Watch:
    """What is known about one program. Times are monotonic seconds."""

    def __init__(
        self,
        name: str,
        signatures: Signatures | None = None,
        memory: MemoryBudget | None = None,
        *,
        remote: bool = False,
    ) -> None:
        self.name = name
        self.remote = remote  # its process is on another host: `pid` is a number there
        self.barred = "not seen yet" if remote else ""
        self.resolved: dict[str, str] = {}  # what its process made of flags that members must have alike
        self.running = 0.0  # requests that it holds, by its own metrics
        self.memory = memory
        self.pid = 0
        self.deaths = 0
        self.exit = ""
        self.lines: deque[str] = deque(maxlen=50)
        self.kv_tokens: int | None = None
        self.context_length: int | None = None  # tokens of its longest request, in its own word
        self.gpu_holder: str | None = None
        self.shared_memory: frozenset[str] = frozenset()  # of all its incarnations that were not cleaned up after
        self.model = (0, "")  # process, and the stamp of the model's files as it found them
        self.last_times: dict[str, float] = {}  # phase -> seconds of the last good start
        self.served_pid = 0  # process that an earlier guard saw serving
        self.ended = 0.0
        self.bootstrap = Answer.YES  # only a prefill has such a port
        self.unproved: tuple[str, ...] = ()
        self.unlisted = False
        self.gpu_fault, self.gpu_note = "", (0.0, "")
        self.needs_warm_up = False
        self.warmed = 0  # process whose warm-up is through
        self.warming = ""  # how far it is, for people
        self._signatures = signatures
        self.alive = False
        self._process_state = "STOPPED"
        self._changed = 0.0
        self._reset(0.0)

    def _reset(self, now: float) -> None:
        self.gone = False
        self.started = now
        self.progress = now
        self.ready = Answer.NO
        self.health = Answer.YES
        self.phase = Phase.START if now else Phase.DOWN
        self.percent: int | None = None
        self.detail = ""
        self.complaint: Complaint | None = None
        self.workers: frozenset[int] = frozenset()
        self.phase_times: dict[str, float] = {}
        self.ready_at: float | None = None
        self.warm_at: float | None = None
        self.served = False
        self.lost = ""
        self.worked = self.refused = 0.0
        self.compiling: tuple[float, float] | None = None
        self._killed = self._compiles = False
        self.counter: float | None = None
        self._sampled = now
        self._moves: deque[float] = deque(maxlen=100)
        self._work: tuple[frozenset[int], int] | None = None
        self._surveyed = 0.0

    @property
    def up(self) -> bool:
        """Whether a process lives, as far as is known."""
        return self.alive and not self.gone

    def on_event(self, state: str, now: float, pid: int = 0, how: str = "") -> None:
        """supervisord changed the program's state; `how` tells how its process ended."""
        self._process_state, self._changed = state, now
        if state in UP:
            if not self.alive:
                self._begin(now)
            self.pid = pid or self.pid
            self.served = self.served or 0 < self.pid == self.served_pid
        elif self.alive:
            self._end(how, now)

    def on_replaced(self, now: float) -> None:
        """Its process ended and another began, and neither was seen."""
        if self.alive:
            self._end("ended unseen", now)

    def differs(self, process: Process, asked: float) -> bool:
        """Whether supervisord's answer to a question asked then shows that an event was missed."""
        if asked < self._changed:
            return False  # older than the last event
        return process.state != self._process_state or (process.state in UP and process.pid != self.pid)

    def _begin(self, now: float) -> None:
        self._reset(now)
        self.alive, self.pid = True, 0

    def _end(self, how: str, now: float) -> None:
        self.deaths += 1
        self.exit = ENDED_BY_US if self._killed else how or "ended"
        self.ended = self.ended if self.gone else now
        self.alive, self.pid, self.phase, self.ready = False, 0, Phase.DOWN, Answer.NO
        self.detail, self.percent, self.warming = "", None, ""

    def on_gone(self, pid: int, now: float) -> None:
        """The kernel says that the process has ended; supervisord will say how."""
        if pid == self.pid and not self.gone:
            self.gone, self.ended = True, now

    def on_kill(self) -> None:
        """The guard ends it: how it ends then says nothing about a cause."""
        self._killed = self._killed or self.up

    def on_lost_worker(self, how: str) -> None:
        """A child that it can't do without has ended; the first one is the cause of what follows."""
        self.lost = self.lost or how

    def on_lines(self, lines: Iterable[str], now: float) -> None:
        """New lines of its log."""
        for line in lines:
            self.lines.append(line)
            meaning = self._signatures.read_line(line) if self._signatures else None
            if meaning:
                self._take(meaning, now)
            if self.ready_at is None:
                self.progress = now  # while it loads, any line is a sign of life

    def on_history(self, lines: Iterable[str], now: float) -> None:
        """Lines from before this guard: they tell how far the start is; what they complain of is not news."""
        for line in lines:
            message = message_of(line)
            if message.startswith(FIRST_LINE):
                self.phase, self.percent, self.served = Phase.START, None, 0 < self.pid == self.served_pid
            self.served = self.served or message.startswith(SERVES)  # in case the earlier guard could not tell us
            self.on_lines([line], now)
        self.complaint = None

    def _take(self, meaning: Meaning, now: float) -> None:
        if meaning.complaint and self._is_news(meaning.complaint, now):
            self.complaint = replace(self._advised(meaning.complaint), at=now)
        if meaning.phase and _ORDER.index(meaning.phase) > _ORDER.index(self.phase):
            self._enter(meaning.phase, now)
        if meaning.phase is self.phase and meaning.percent is not None:
            self.percent = meaning.percent

    def _is_news(self, said: Complaint, now: float) -> bool:
        """The first line of an incident tells most, but for one that decides nothing by itself."""
        before = self.complaint
        if before is None or (self.served and not alive(before, now)):
            return True
        return before.remedy is Remedy.EXPLAIN and said.remedy is not Remedy.EXPLAIN

    def _advised(self, said: Complaint) -> Complaint:
        if not said.memory:
            return said
        return replace(said, cause=said.cause + advice(self.memory, self.phase, said.short))

    def _enter(self, phase: Phase, now: float) -> None:
        self.phase, self.percent = phase, None
        self.phase_times[phase.value] = round(now - self.started, 3)

    @property
    def cold(self) -> bool:
        """Whether its process has yet to run every class of request."""
        return self.needs_warm_up and not 0 < self.pid == self.warmed

    def on_warm(self, pid: int, now: float) -> None:
        """Its warm-up is through, or was given up."""
        if pid == self.pid:
            self.warmed, self.warm_at, self.warming = pid, now, ""

    def on_warmed_before(self, pid: int, at: float) -> None:
        """An earlier guard saw this process through its warm-up."""
        self.warmed, self.warm_at = pid, at

    def on_ready(self, answer: Answer, now: float, detail: str = "", asked: float | None = None) -> None:
        """What its readiness probe heard to a question asked then."""
        self.ready, self.detail = answer, detail
        if answer is not Answer.SILENT:
            self.refused = (now if asked is None else asked) if answer is Answer.NO else 0.0
        self.served = self.served or (answer is Answer.YES and self.up)
        if answer is Answer.YES and self.ready_at is None and self.up:
            self.ready_at = self.worked = now
            self._enter(Phase.READY, now)

    def on_health(self, answer: Answer, now: float) -> None:
        """What its own test generation said; a good answer is a sign of work."""
        self.health = answer
        if answer is Answer.YES:
            self.worked = now

    def on_compilers(self, seen: bool, now: float) -> None:
        """Whether a compiler runs in its process tree."""
        self._compiles = seen
        if seen:
            began, latest = self.compiling or (now, now)
            self.compiling = (began if now - latest <= COMPILE_PAUSE_S else now, now)

    def on_counter(self, value: float, now: float) -> None:
        """Its token counter. A change that lies wholly between two of our samples is remembered by the first one."""
        if self.counter is not None and value != self.counter:
            self.worked = now
            self._moves.append(self._sampled)
        self.counter, self._sampled = value, now

    def moves_since(self, when: float) -> int:
        """In how many intervals between samples that began after `when` tokens were computed."""
        return sum(began >= when for began in self._moves)

    def survey_due(self, now: float) -> bool:
        """Whether to look at its process tree: always while it loads and in its first minute, in which the last of its
        files appear; once a minute later, because reading the memory maps of a serving process is not free.
        """
        young = self.ready_at is None or now - self.ready_at < SURVEY_S
        return young or now - self._surveyed > SURVEY_S

    def on_work(self, work: tuple[frozenset[int], int], now: float) -> None:
        """Who is in its process tree and what it has read: a change is progress while it loads."""
        self._surveyed = now if self.ready_at else 0.0
        if work != self._work and self.ready_at is None:
            self._work, self.progress = work, now

    def eta(self, now: float) -> float | None:
        """Seconds until ready, from the last good start; None when unknown."""
        total = self.last_times.get(Phase.READY.value)
        if total is None or self.ready_at is not None or not self.up:
            return None
        here = self.last_times.get(self.phase.value)
        entered = self.phase_times.get(self.phase.value)
        offset = entered - here if here is not None and entered is not None else 0.0
        return max(0.0, total + offset - (now - self.started))

    def describe(self) -> str:
        """Where it is, for people."""
        if self.detail:
            return self.detail
        if self.cold and self.ready_at is not None:
            return self.warming or "waits for its warm-up"
        here = f"{self.phase.value} {self.percent} %" if self.percent is not None else self.phase.value
        return f"{here}, a compiler runs" if self._compiles and self.ready_at is None else here

    def view(self) -> RoleView:
        """The frozen view that policy reads."""
        return RoleView(
            name=self.name,
            up=self.up,
            idle=self._process_state in IDLE and not self.remote,
            ready=self.ready if self.up else Answer.NO,
            deaths=self.deaths,
            started=self.started,
            progress=self.progress,
            served=self.served,
            serving_since=self.ready_at,
            worked=self.worked,
            compiling=self.compiling,
            refused=self.refused,
            ended=self.ended,
            lost=self.lost,
            phase=self.phase,
            exit=self.exit,
            health=self.health,
            complaint=self.complaint,
            detail=self.describe(),
            gpu_holder=self.gpu_holder,
            model=self.model[1] if self.model[0] == self.pid else "",
            bootstrap=self.bootstrap,
            unproved=self.unproved,
            unlisted=self.unlisted,
            gpu_fault=self.gpu_fault,
            gpu_note=self.gpu_note,
            cold=self.cold,
            remote=self.remote,
            barred=self.barred,
            busy=self.running > 0,
        )
