"""The state diagram, drawn by running `next_state` over every kind of observation from every state it reaches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from dsv4_pd.plan.guard.config import Limits
from dsv4_pd.run.guard.decide.policy import next_state
from dsv4_pd.run.guard.decide.states import Answer, CanaryView, Observation, RoleView, State, initial
from dsv4_pd.run.states import ARRIVING, CLOSING, StateName

LIMITS = Limits()
STEP = 20.0  # seconds between two observations: longer than the router's bound, shorter than a start
Edge = tuple[StateName, StateName]


def edges(*, member: bool = False) -> frozenset[Edge]:
    """Every change of state that some observation can bring about.

    `member`: of the guard of one of several hosts, which has a server and no router; JOINABLE is its alone.
    """
    found: set[Edge] = set()
    seen: set[object] = set()
    front = [initial(0.0), initial(0.0, "nothing is started")]
    while front:
        state = front.pop()
        for view in _of_member(state) if member else _observations(state):
            after, _ = next_state(state, view, LIMITS)
            if after.name is not state.name:
                found.add((state.name, after.name))
            key = (after.name, len(after.charges), after.failures, after.settled is None, len(after.condemned))
            if key not in seen and after.name not in CLOSING:
                seen.add(key)
                front.append(after)
    return frozenset(found)


def _observations(state: State) -> Iterator[Observation]:
    """What can be seen next: each end down, loading, silent or ready; each kind of canary; the outside world."""
    now = max([state.since, state.serving_since or 0.0, *state.charges, 0.0]) + STEP
    deaths = dict(state.deaths)
    servers = [(up, ready) for up, ready in product((True, False), Answer) if up or ready is Answer.NO]
    canaries = (CanaryView(), CanaryView(now, now), CanaryView(now, now, 1, "no answer"), CanaryView(now, now, 2, "no"))
    for (up, ready), (router_up, router_ready), canary in product(servers, servers, canaries):
        decode = RoleView("decode", up, not up, ready, deaths.get("decode", 0) + (not up), 1.0, now)
        router = RoleView("router", router_up, not router_up, router_ready, deaths.get("router", 0), 1.0, now)
        prefill = RoleView("prefill", True, False, Answer.YES, deaths.get("prefill", 0), 1.0, now)
        yield Observation(now, (prefill, decode), router, canary=canary)
    nothing = replace(prefill, up=False, idle=True, ready=Answer.NO)
    yield Observation(now, (nothing, replace(nothing, name="decode")), router)
    yield Observation(now, (prefill, decode), router, stop="stopped on request")
    yield Observation(now, (prefill, decode), router, gpu_lost="GPU lost")


def _of_member(state: State) -> Iterator[Observation]:
    """The same of one server without a router: what crosses it is the proof."""
    for seen in _observations(state):
        crossed = replace(seen.canary, failures=0, failure="")
        yield replace(seen, servers=seen.servers[-1:], router=None, canary=crossed)


def mermaid() -> str:
    """The diagram's text; edges into the two endings are drawn once, from the group of states that have them."""
    drawn = edges()
    lines = ["stateDiagram-v2", "    [*] --> BOOTING", "    [*] --> SAFE: failed starts in a row"]
    # Before the guard, whose decisions the rest of the picture is.
    lines += ["    [*] --> DOWNLOADING: the model is not whole here", "    DOWNLOADING --> BOOTING"]
    lines += ["    DOWNLOADING --> FAILED: it can't be downloaded", "    DOWNLOADING --> STOPPING"]
    lines += ["    state running {"]
    inner = [(a, b) for a, b in drawn if b not in CLOSING]
    lines += [f"        {a} --> {b}" for a, b in sorted(inner)]
    lines += ["    }"]
    for ending in sorted(CLOSING):
        sources = {a for a, b in drawn if b is ending}
        group = set(StateName) - CLOSING - ARRIVING - {StateName.SAFE, StateName.JOINABLE}
        lines += (
            [f"    running --> {ending}"] if group <= sources else [f"    {a} --> {ending}" for a in sorted(sources)]
        )
        lines += [f"    SAFE --> {ending}"] if StateName.SAFE in sources and group <= sources else []
        lines += [f"    {ending} --> [*]"]
    return "\n".join(lines)


def fill(page: str) -> str:
    """The page with its diagram regenerated.

    >>> fill("a\\n```mermaid\\nold\\n```\\nb").startswith("a\\n```mermaid\\nstateDiagram-v2\\n")
    True
    """
    head, _, rest = page.partition("```mermaid\n")
    _, _, tail = rest.partition("\n```")
    return f"{head}```mermaid\n{mermaid()}\n```{tail}"
