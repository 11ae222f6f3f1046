"""What a check is: one question about the machine, its answer, and what to do about it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from dsv4_pd.errors import ApplianceError, HardwareError
from dsv4_pd.host.facts import Gpu, HostFacts
from dsv4_pd.host.numa import Permission
from dsv4_pd.plan.model_files import Model
from dsv4_pd.plan.placement import Placement
from dsv4_pd.plan.profiles import Profile
from dsv4_pd.plan.programs import Port
from dsv4_pd.settings.schema import Settings


class Verdict(enum.StrEnum):
    """Worst last."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One answer: what was read, and for a bad one the command that mends it."""

    verdict: Verdict
    read: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Disk:
    """Space below a folder that we write to or read from."""

    purpose: str
    setting: str
    path: Path
    free_bytes: int | None


@dataclass(frozen=True, slots=True)
class Around:
    """What only the live machine can say, read once beside the facts; the defaults are a machine in order."""

    environ: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    busy_ports: tuple[tuple[Port, str], ...] = ()  # port and why it can't be bound
    disks: tuple[Disk, ...] = ()
    model: Model = field(default_factory=lambda: Model(None))
    engine_python: bool = True
    router_python: bool = True
    tools: Mapping[str, bool] = field(default_factory=lambda: MappingProxyType({}))  # program -> on the path
    running: bool = False  # an appliance runs in this run folder: ports and GPUs are then in use by right
    numa: Permission = field(default_factory=lambda: Permission("membind"))


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything a check may look at. `placement` is None when there is none, for the reason in `refusal`."""

    settings: Settings
    profile: Profile | None
    facts: HostFacts
    placement: Placement | None
    refusal: ApplianceError | None = None
    around: Around = field(default_factory=Around)

    @property
    def on_gpus(self) -> bool:
        """Whether GPUs are asked for; on the CPU profile most hardware questions don't arise."""
        return self.profile is None or self.profile.device == "cuda"

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """The GPUs that will be used, as the facts have them now (the plan may be older); all without a placement."""
        if not (self.placement and self.placement.visible):
            return self.facts.gpus
        now = {gpu.uuid: gpu for gpu in self.facts.gpus}
        return tuple(now.get(gpu.uuid, gpu) for gpu in self.placement.visible)

    def env(self, name: str) -> str:
        """A variable of the operator's, blank when unset."""
        return self.around.environ.get(name, "")


@dataclass(frozen=True, slots=True)
class Check:
    """A check: `fatal` ones are run by `serve`, and a failure of one refuses the start with `error`."""

    name: str
    symptom: str  # what the operator sees when this goes wrong unnoticed
    why: str
    source: str
    run: Callable[[Situation], Finding]
    expected: str = ""  # completes "found ..., expected ..." when a failure refuses the start
    fatal: bool = False
    error: type[ApplianceError] = HardwareError
    gpu_only: bool = True


def ok(read: str) -> Finding:
    """Nothing to do."""
    return Finding(Verdict.OK, read)


def warn(read: str, remedy: str) -> Finding:
    """It will run, but worse or less safely than it could."""
    return Finding(Verdict.WARN, read, remedy)


def fail(read: str, remedy: str) -> Finding:
    """It will not run, or not correctly."""
    return Finding(Verdict.FAIL, read, remedy)


def gib(size: float) -> str:
    """
    >>> gib(68719476736)
    '64.0 GiB'
    """
    return f"{size / (1 << 30):.1f} GiB"


def numbered(gpus: tuple[Gpu, ...]) -> str:
    """
    >>> numbered(())
    'GPU -'
    """
    return "GPU " + (", ".join(str(gpu.index) for gpu in gpus) or "-")
