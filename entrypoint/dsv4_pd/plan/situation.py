"""One frozen picture of settings, machine and plan, from which serve, plan, doctor and support bundle all speak."""

from __future__ import annotations

from dataclasses import dataclass

from dsv4_pd.errors import ApplianceError
from dsv4_pd.host.facts import Gpu, HostFacts
from dsv4_pd.plan.around import arriving
from dsv4_pd.plan.around.surroundings import Surroundings
from dsv4_pd.plan.around.tuned import Tuned
from dsv4_pd.plan.notices import Notice
from dsv4_pd.plan.placement.members import Port
from dsv4_pd.plan.placement.place import Placement
from dsv4_pd.plan.plan import Plan
from dsv4_pd.plan.shipped.presets import Preset
from dsv4_pd.plan.shipped.profiles import Profile
from dsv4_pd.settings.schema import Settings


@dataclass(frozen=True, slots=True)
class Situation:
    """What `survey` found. `plan` is None when there can be none, for the reason in `refusal`."""

    settings: Settings  # with the profile's defaults, where there is a profile
    facts: HostFacts
    profile: Profile | None
    around: Surroundings
    plan: Plan | None = None
    refusal: ApplianceError | None = None
    own: frozenset[str] = frozenset()  # fields that the operator set: the rest are a preset's, a profile's, ours
    preset: Preset | None = None
    busy_ports: tuple[tuple[Port, int], ...] = ()  # port and why it can't be bound: errno
    door_files: tuple[tuple[str, str], ...] = ()  # setting and why the file that it names can't be used
    tuned: Tuned | None = None  # what a receipt of `dsv4-pd tune` says; None: there is none

    @property
    def placement(self) -> Placement | None:
        """Roles on GPUs and nodes, where there is a plan."""
        return self.plan.placement if self.plan else None

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What planning remarked."""
        return (*self.plan.placement.notices, *arriving.notices(self.settings, self.around)) if self.plan else ()

    @property
    def on_gpus(self) -> bool:
        """Whether GPUs are asked for; on the CPU profile most hardware questions don't arise."""
        return self.settings.role != "router" and (self.profile is None or self.profile.device == "cuda")

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """The GPUs that will be used; all without a placement."""
        return self.placement.visible if self.placement and self.placement.visible else self.facts.gpus

    def env(self, name: str) -> str:
        """A variable of the operator's, blank when unset."""
        return self.around.environ.get(name, "")

    def planned(self) -> Plan:
        """The plan.

        Raises:
            ApplianceError: why there is none.
        """
        if self.plan is None:
            raise self.refusal or ApplianceError("there is no plan")
        return self.plan
