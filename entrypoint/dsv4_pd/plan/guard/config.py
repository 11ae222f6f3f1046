"""What the guard must know, as plain data: built once by `serve`, handed over in a file of mode 0600."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Limits:
    """The operator's bounds, in seconds where not counts."""

    start_timeout: float = 3600.0
    stall_timeout: float = 300.0
    restart_limit: int = 3
    restart_window: float = 1800.0
    drain_timeout: float = 30.0
    link_timeout: float = 600.0  # the engine's own clock; prefill's queue and computing run on it
    first_canary_timeout: float = 60.0  # for the guard's own request after a start, which may meet a compiler
    canary_timeout: float = 10.0  # for the later ones: they are short, and behind nothing new
    unready_timeout: float = 30.0  # a server that served says no, a router does not answer, and nothing is computed
    silent_timeout: float = 60.0  # a server that served does not answer at all, and nothing is computed
    compile_timeout: float = 900.0  # for compilers that run without a break to count as work
    abort_window: float = 20.0  # after a death: for what the router sent before it noticed
    router_timeout: float = 15.0  # for the router to list workers that are ready
    front_timeout: float = 5.0  # the front does not answer, and is stopped or asleep
    plugin_timeout: float = 60.0  # for a plugin to prove itself once every server is ready
    proof_timeout: float = 120.0  # READY without a proof of the path for longer is DEGRADED
    gpu_wait: float = 60.0  # for the memory of a dead server to be released
    max_backoff: float = 60.0
    rest_timeout: float = 60.0  # a start waits for the other members once some could serve
    shared_abort_window: float = 6.0  # as abort_window, where the survivor serves with others too
    warm_up_timeout: float = 900.0  # for a server's warm-up as a whole: it is then served without the rest
    warm_up_silence: float = 120.0  # for one class of requests without an answer and without a compiler

    @property
    def stable(self) -> float:
        """READY for so long ends a streak of failures: rarer restarts stay inside the budget anyway."""
        return self.restart_window / self.restart_limit

    def backoff(self, failures: int) -> float:
        """How long to wait before the restart that the nth failure in a row asks for; the first waits for nothing."""
        return 0.0 if failures <= 1 else min(self.max_backoff, 2.0 ** (failures - 1))


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """What the memory model says of one server's cards, for advice when it runs out: bytes, and shares of a card."""

    setting: str  # of its memory fraction
    fraction: float
    least: float  # the fraction that still holds KV for the longest request
    card: float
    weights: float
    working: str  # the setting that its activations grow with


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """One engine server as the guard sees it."""

    name: str
    url: str
    log: str
    gpus: tuple[str, ...] = ()  # UUIDs
    bootstrap_url: str | None = None
    bootstrap_port: int | None = None
    memory: MemoryBudget | None = None
    role: str = ""  # what it does: "prefill", "decode", "single"; blank where its name says it
    ops_url: str = ""  # of a member on another host: where its own guard tells how it is

    @property
    def does(self) -> str:
        """Its role."""
        return self.role or self.name

    @property
    def host(self) -> str:
        """The host of its address."""
        return self.url.split("://", 1)[-1].rsplit(":", 1)[0]


@dataclass(frozen=True, slots=True)
class GuardConfig:
    """Everything the guard reads; nothing else reaches it but supervisord's events and the world."""

    version: str
    fingerprint: str  # of the plan: a changed setting or image gives failed starts a new chance
    mode: Literal["pd", "replicas", "single"]
    profile: str
    servers: tuple[ServerConfig, ...]
    router_url: str  # on loopback: its administration, and who it lists; blank: there is none here
    router_log: str
    model: str  # as it is served
    ops_host: str
    ops_port: int
    socket: str
    health_file: str
    exit_file: str
    starts_file: str
    record_dir: str
    signatures: str
    supervisor_log: str
    temp_dir: str
    model_source: str = ""  # where the servers load it from: a folder or a name of the Hub
    model_revision: str | None = None
    control_key_file: str = ""  # the key to the router's administration; drawn when the files are written
    notices: tuple[str, ...] = ()  # what the operator should know, shown by /status
    api_key: str | None = dataclasses.field(default=None, repr=False)  # of servers and router
    safe_mode: Literal["auto", "off", "on"] = "auto"
    safe_after: int = 3  # failed starts in a row
    plugins: tuple[str, ...] = ()  # must prove themselves in every server
    router_metrics_url: str = ""
    front_url: str = ""  # as clients reach it; blank: nothing stands before the router
    front_log: str = ""
    front_key_file: str = ""  # the guard's own key there; drawn when the files are written
    front_metrics_url: str = ""
    cache_dir: str = ""  # where the engine puts what it compiles
    warm_up: Literal["off", "few", "all"] = "off"  # which classes of requests a server runs before READY
    cache_strict: bool = False  # a kernel that is compiled at run time ends the appliance
    about: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # versions and machine, shown by /status
    limits: Limits = dataclasses.field(default_factory=Limits)
    canary_interval: float = 30.0
    health_interval: float = 15.0
    metrics_interval: float = 2.0
    probe_interval: float = 0.25
    member_interval: float = 0.5  # between two looks at a member on another host

    @property
    def api_url(self) -> str:
        """The way of a client: what the canary takes."""
        return self.front_url or self.router_url

    @property
    def routes(self) -> tuple[tuple[ServerConfig, ...], ...]:
        """The servers that together answer a request: each single one, each prefill with each decode."""
        first = [one for one in self.servers if one.does == "prefill"]
        last = [one for one in self.servers if one.does == "decode"]
        if not first or not last:
            return tuple((one,) for one in self.servers)
        return tuple((one, other) for one in first for other in last)

    def to_json(self) -> str:
        """The file's text; holds the API key, so the file must have mode 0600."""
        return json.dumps(dataclasses.asdict(self), indent=1)


def from_json(text: str) -> GuardConfig:
    """The configuration from its file's text; an unknown key is a programming error and raises TypeError."""
    data: dict[str, Any] = json.loads(text)
    servers = tuple(_server(item) for item in data.pop("servers"))
    limits = Limits(**data.pop("limits"))
    lists = {name: tuple(data[name]) for name in ("plugins", "notices")}
    return GuardConfig(**{**data, **lists}, servers=servers, limits=limits)


def _server(item: Mapping[str, Any]) -> ServerConfig:
    memory = MemoryBudget(**item["memory"]) if item.get("memory") else None
    return ServerConfig(**{**item, "gpus": tuple(item["gpus"]), "memory": memory})
