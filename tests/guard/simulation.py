"""A simulated world for `next_state`: roles that start, become ready, die, hang; a clock; a canary; no sleeping."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from dsv4_pd.plan.guard.config import Limits
from dsv4_pd.run.guard.decide import conditions, policy
from dsv4_pd.run.guard.decide.states import (
    Act,
    Action,
    Answer,
    CanaryView,
    Complaint,
    Observation,
    Remedy,
    RoleView,
    State,
    Verdict,
    initial,
)

TICK = 0.25
LIMITS = Limits()


@dataclass
class Role:
    """One simulated program. `load_s`: from start to ready; `life_s`: from start to death; None: never."""

    name: str
    load_s: float | None = 20.0
    life_s: float | None = None
    up: bool = False
    started: float = 0.0
    deaths: int = 0
    view: RoleView | None = None
    forced: dict[str, object] = field(default_factory=dict)  # fields of the view that a test sets
    progressing: bool = True  # a start moves; a server that served computes, and answers its /health
    progress: float = 0.0
    served: bool = False
    serving_since: float | None = None
    ended: float = 0.0
    compiling: tuple[float, float] | None = None
    said: Complaint | None = None
    model: str = ""  # of the files that it found when it was started

    def observe(self, now: float, **more: object) -> RoleView:
        ready = self.up and self.load_s is not None and now - self.started >= self.load_s
        answer = self.forced.get("ready", Answer.YES if ready else Answer.NO)
        self.served = self.served or (self.up and answer is Answer.YES)
        if self.up and answer is Answer.YES and self.serving_since is None:
            self.serving_since = now
        self.progress = now if self.progressing else self.progress
        seen: dict[str, object] = {
            "up": self.up,
            "idle": not self.up,
            "ready": Answer.YES if ready else Answer.NO,
            "deaths": self.deaths,
            "started": self.started,
            "progress": self.progress,
            "served": self.served,
            "serving_since": self.serving_since if self.up else None,
            "worked": self.progress if self.served else 0.0,
            "compiling": self.compiling,
            "refused": now if self.up and answer is Answer.NO else 0.0,
            "ended": self.ended,
            "complaint": self.said,
            "exit": "exited with code 3",
            "model": self.model,
        }
        return RoleView(self.name, **{**seen, **more, **self.forced})  # type: ignore[arg-type]


class Simulation:
    """Runs policy over simulated programs; `history` lists the states in order."""

    def __init__(self, limits: Limits = LIMITS, safe: str | None = None) -> None:
        self.limits, self.now = limits, 1000.0
        self.prefill, self.decode, self.router = Role("prefill"), Role("decode"), Role("router", load_s=1.0)
        self.front = Role("front", load_s=0.5)
        self.state: State = initial(self.now, safe)
        self.canary = CanaryView()
        self.files = "v1"  # the model's, as they lie on the disk
        self.link = True  # whether a canary comes through
        self.canary_due = self.canary_sent = 0.0
        self.aborted: list[tuple[float, str]] = []
        self.observation: dict[str, object] = {}
        self.actions: tuple[Action, ...] = ()
        self.starts: list[tuple[float, str]] = []
        self.registered = self.shut = False
        self.history = [self.state.name]

    @property
    def roles(self) -> tuple[Role, ...]:
        return self.prefill, self.decode, self.router, self.front

    def observe(self) -> Observation:
        said = dict(self.observation)
        prefill = self.prefill.observe(self.now, bootstrap=said.pop("bootstrap", Answer.YES))
        decode = self.decode.observe(self.now, unproved=said.pop("missing_proof", ()))
        router, front = self.router.observe(self.now), self.front.observe(self.now)
        seen = Observation(self.now, (prefill, decode), router, canary=self.canary, front=front)
        return replace(seen, **said)  # type: ignore[arg-type]

    def step(self) -> None:
        """One tick: programs age, the canary is sent, policy decides, the world obeys."""
        self.now += TICK
        for role in self.roles:
            if role.up and role.life_s is not None and self.now - role.started >= role.life_s:
                self.die(role)
        self.state, self.actions = policy.next_state(self.state, self.observe(), self.limits)
        if self.state.name is not self.history[-1]:
            self.history.append(self.state.name)
        for action in self.actions:
            self._obey(action)
        self._fly(self.observe())

    def _fly(self, seen: Observation) -> None:
        ends = all(conditions.can_serve(role) for role in seen.roles) and seen.bootstrap is not Answer.NO
        asked = any(role.complaint and role.complaint.at > self.canary_sent for role in seen.servers)
        if not ends or (self.now < self.canary_due and not (asked and self.now - self.canary_sent > 5)):
            return
        self.canary_sent = self.now
        if self.link:
            self.canary, self.canary_due = CanaryView(self.now, self.now), self.now + 30
        else:
            self.canary_due = (
                self.now
                + 3
                + (self.limits.first_canary_timeout if self.canary.sent is None else self.limits.canary_timeout)
            )
            self.canary = replace(self.canary, failures=self.canary.failures + 1, failure="link from prefill to decode")

    def _obey(self, action: Action) -> None:
        role = next((role for role in self.roles if role.name == action.name), None)
        if action.act is Act.START and role and not role.up:
            role.up, role.started, role.progress = True, self.now, self.now
            role.model = self.files if role in (self.prefill, self.decode) else ""
            role.served, role.serving_since, role.compiling, role.said = False, None, None, None
            self.starts.append((self.now, role.name))
        elif action.act in (Act.KILL, Act.STOP) and role and role.up:
            self.die(role)
        elif action.act is Act.ABORT:
            self.aborted.append((self.now, action.name))
        elif action.act is Act.REGISTER:
            self.registered = True
        elif action.act is Act.SHUTDOWN:
            self.shut = True

    def die(self, role: Role) -> None:
        role.up, role.deaths, role.ended = False, role.deaths + 1, self.now
        self.canary, self.canary_due = CanaryView(), 0.0

    def says(self, role: Role, remedy: Remedy, cause: str, exit_code: int = 1) -> None:
        """The server's log has a fatal line now."""
        role.said = Complaint(remedy, cause, exit_code, at=self.now)

    def run(self, seconds: float, *until: str) -> float:
        """Let time pass, at most until one of the states; how long it took."""
        begun = self.now
        while self.now - begun < seconds and self.state.name not in until and not self.shut:
            self.step()
        return self.now - begun

    def verdict(self) -> Verdict:
        assert self.state.verdict is not None, self.state
        return self.state.verdict
