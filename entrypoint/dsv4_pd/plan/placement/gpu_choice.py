"""Picking GPUs: by the names that an operator gives, and by fitness. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from dsv4_pd.errors import HardwareError, Problem, SettingsError
from dsv4_pd.host import lost_cards
from dsv4_pd.host.facts import Gpu, HostFacts
from dsv4_pd.host.parse import bus_id
from dsv4_pd.plan.shipped.profiles import GpuNeed
from dsv4_pd.settings.layout import PAIR_ROLES, Layout
from dsv4_pd.settings.schema import Settings

_ACCEPTED = "an index, a UUID (or its unambiguous start) or a PCI bus id of a GPU of this host"


def minimum_gb(settings: Settings, need: GpuNeed) -> float:
    """Smallest memory a GPU may have, in GB."""
    return settings.min_vram_gb or need.min_memory_gb


def unfit_reason(settings: Settings, need: GpuNeed, gpu: Gpu) -> str | None:
    """Why a GPU can't carry a role, or None."""
    if gpu.compute_capability != need.compute_capability:
        have, want = (".".join(map(str, cc)) for cc in (gpu.compute_capability, need.compute_capability))
        return f"compute capability {have}, not {want}"
    if gpu.memory_bytes < minimum_gb(settings, need) * 1e9:
        return f"{gpu.memory_bytes / 1e9:.0f} GB of memory, less than {minimum_gb(settings, need):g}"
    if gpu.mig:
        return f"MIG is on (nvidia-smi -i {gpu.index} -mig 0 turns it off)"
    return None


def eligible(settings: Settings, need: GpuNeed, gpus: Iterable[Gpu]) -> list[Gpu]:
    """GPUs that can carry a role, in PCI bus order."""
    return [gpu for gpu in gpus if unfit_reason(settings, need, gpu) is None]


def _is_index(name: str) -> bool:
    """A longer row of digits is the start of a UUID."""
    return re.fullmatch(r"[0-9]{1,3}", name) is not None


def find_gpu(name: str, gpus: Sequence[Gpu]) -> Gpu | None:
    """The GPU of an index, a UUID, the unambiguous start of one, or a PCI bus id."""
    if _is_index(name):
        return next((gpu for gpu in gpus if gpu.index == int(name)), None)
    if ":" in name:
        return next((gpu for gpu in gpus if gpu.pci_bus_id == bus_id(name)), None)
    lowered = name.lower() if name.lower().startswith("gpu-") else f"gpu-{name.lower()}"
    found = [gpu for gpu in gpus if gpu.uuid.lower().startswith(lowered)]
    return found[0] if len(found) == 1 and len(lowered) > len("gpu-") else None


def named_gpus(settings: Settings, need: GpuNeed, facts: HostFacts, layout: Layout) -> dict[str, tuple[Gpu, ...]]:
    """The GPUs that the settings name, by role; empty where a role is left open. Of a layout without roles both lists
    together are the servers'.

    Raises:
        SettingsError: for every name that is unknown, doubled or in both roles, and for unequal groups.
        HardwareError: for every named GPU that does not answer or can't carry a role.
    """
    found = resolved(settings, facts, layout)
    unfit = [
        Problem(
            _setting(role),
            f"GPU {gpu.index} ({gpu.name}): {reason}",
            "a GPU that fits the profile",
            "name another card or choose another DSV4_PROFILE",
        )
        for role in PAIR_ROLES
        for gpu in found[role]
        if (reason := unfit_reason(settings, need, gpu))
    ]
    if unfit:
        raise HardwareError(unfit)
    return found


def resolved(settings: Settings, facts: HostFacts, layout: Layout) -> dict[str, tuple[Gpu, ...]]:
    """The GPUs that the settings name, by role, whatever they are.

    Raises:
        SettingsError: for every name that is unknown, doubled or in both roles, and for groups that are unequal, not as
            large as the layout says, or leave no cards for the other role.
        HardwareError: for names of cards that do not answer.
    """
    problems: list[Problem] = []
    found: dict[str, tuple[Gpu, ...]] = {}
    dead: list[Problem] = []
    for role in PAIR_ROLES:
        names = settings.prefill_gpus if role == "prefill" else settings.decode_gpus
        silent = {name: problem for name in names if (problem := _dead(_setting(role), name, facts))}
        dead += silent.values()
        found[role], wrong = _resolve(_setting(role), [name for name in names if name not in silent], facts)
        problems += wrong
    problems += _overlap(found)
    if not problems and not dead:
        problems += _counts(found, layout) or (_sizes(found) if layout.kind == "pd" else [])
        problems = problems or _room(found, layout, len(facts.gpus) + len(facts.lost_gpus))
    if problems:
        raise SettingsError(problems)
    if dead:
        raise HardwareError(dead)
    return found


def too_few_named(count: int, smallest: int) -> Problem:
    """Both roles are named, and together they are fewer than any profile has: a wrong setting."""
    return Problem(
        "DSV4_PREFILL_GPUS and DSV4_DECODE_GPUS",
        f"{count // 2} + {count // 2} GPUs",
        f"{smallest} or more: the weights of the smallest pair need {smallest // 2} cards for each role",
        "name more cards, or set DSV4_LAYOUT=single",
    )


def _setting(role: str) -> str:
    return f"DSV4_{role.upper()}_GPUS"


def _dead(setting: str, name: str, facts: HostFacts) -> Problem | None:
    """A name of a card that is here and does not answer. The driver tells only such a card's index, so any other name
    that no answering card has may be its name.
    """
    if not facts.lost_gpus or find_gpu(name, facts.gpus) is not None:
        return None
    lost = [card for card in facts.lost_gpus if not _is_index(name) or card.index == int(name)]
    if not lost:
        return None
    said, remedy = lost_cards.told(lost, facts.software.container is not None)
    found = said if _is_index(name) else f"{name!r}, which no card that answers is; {said}"
    return Problem(setting, found, "GPUs that answer", f"{remedy}; or name other cards")


def _resolve(setting: str, names: Sequence[str], facts: HostFacts) -> tuple[tuple[Gpu, ...], list[Problem]]:
    problems: list[Problem] = []
    found: list[Gpu] = []
    for name in names:
        gpu = find_gpu(name, facts.gpus)
        if gpu is None:
            listed = ", ".join(f"{g.index} ({g.uuid}, {g.pci_bus_id})" for g in facts.gpus)
            mig = "; MIG slices can't be used" if name.upper().startswith("MIG-") else ""
            problems.append(Problem(setting, repr(name), _ACCEPTED + mig, f"choose from {listed}"))
        elif gpu in found:
            problems.append(Problem(setting, f"GPU {gpu.index} twice", "each GPU once", f"remove one {name!r}"))
        else:
            found.append(gpu)
    return tuple(found), problems


def _overlap(found: dict[str, tuple[Gpu, ...]]) -> list[Problem]:
    both = [gpu for gpu in found["prefill"] if gpu in found["decode"]]
    return [
        Problem(
            "DSV4_DECODE_GPUS",
            f"GPU {gpu.index}, which DSV4_PREFILL_GPUS has as well",
            "each GPU in one role",
            f"remove GPU {gpu.index} from one of the two",
        )
        for gpu in both
    ]


def _counts(found: dict[str, tuple[Gpu, ...]], layout: Layout) -> list[Problem]:
    """Lists that are not as long as the layout says, where it says how long."""
    lists = {"single": (*found["prefill"], *found["decode"])} if layout.kind != "pd" else found
    return [
        Problem(
            _setting(group.role) if layout.kind == "pd" else "DSV4_PREFILL_GPUS",
            f"{len(named)} GPUs",
            f"{group.count * group.tensor_parallel} for DSV4_LAYOUT={layout}",
            "name as many, or none to have them chosen",
        )
        for group in layout.groups
        if group.tensor_parallel and (named := lists[group.role]) and len(named) != group.count * group.tensor_parallel
    ]


def _sizes(found: dict[str, tuple[Gpu, ...]]) -> list[Problem]:
    problems = [
        Problem(
            _setting(role),
            f"{len(found[role])} GPUs",
            "1, 2, 4 or 8: the model's 64 heads are split evenly",
            "add or remove cards",
        )
        for role in PAIR_ROLES
        if len(found[role]) not in (0, 1, 2, 4, 8)
    ]
    prefill, decode = len(found["prefill"]), len(found["decode"])
    if not problems and prefill and decode and prefill != decode:
        problems.append(
            Problem(
                "DSV4_DECODE_GPUS",
                f"{decode} GPUs where DSV4_PREFILL_GPUS has {prefill}",
                "as many as prefill: both roles must have the same layout",
                "make them equal",
            )
        )
    return problems


def _room(found: dict[str, tuple[Gpu, ...]], layout: Layout, total: int) -> list[Problem]:
    """One role's list that leaves too few of the host's cards for the other one, which takes as many."""
    if layout.kind != "pd" or layout.groups[0].tensor_parallel:
        return []
    for role, other in (PAIR_ROLES, PAIR_ROLES[::-1]):
        named = len(found[role])
        if not found[other] and 2 * named > total:
            read = f"{named} GPU{'s' if named != 1 else ''} of {total}, which leaves {total - named} for {other}"
            remedy = "name fewer cards, or set DSV4_LAYOUT=single for one server over all of them"
            return [Problem(_setting(role), read, f"at most {total // 2}: {other} takes as many", remedy)]
    return []
