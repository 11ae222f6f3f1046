"""Which layouts could run on this machine, and which of them fit: by the plan and by the memory model.

Every layout here uses all of the GPUs: one that leaves cards idle is never the best use of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dsv4_pd.doctor.base import CheckVerdict
from dsv4_pd.doctor.checks.gpus import memory_fit
from dsv4_pd.errors import ApplianceError
from dsv4_pd.host.machine import Machine
from dsv4_pd.plan.situation import Situation
from dsv4_pd.plan.survey import survey
from dsv4_pd.settings.deprecated import old_names
from dsv4_pd.settings.layout import MOST, TENSOR_PARALLEL, Group, Layout
from dsv4_pd.settings.schema import env_name

ON_CPU = 2  # servers of one process each: what two cores carry


@dataclass(frozen=True, slots=True)
class Judged:
    """A layout, and why it can't be run here; None: it fits."""

    layout: Layout
    refusal: str | None


def layouts(gpus: int) -> Iterator[Layout]:
    """Every layout that uses all of so many GPUs, the largest servers first.

    >>> [str(found) for found in layouts(4)][:4]
    ['single:4', 'replicas:2x2', 'pd:2+2', 'replicas:4x1']
    """
    for size in TENSOR_PARALLEL:
        count, rest = divmod(gpus, size)
        if rest or not 1 <= count <= MOST:
            continue
        yield Layout("single" if count == 1 else "replicas", (Group("single", count, size),))
        for prefills in range(1, count):
            yield Layout("pd", (Group("prefill", prefills, size), Group("decode", count - prefills, size)))


def judged(environ: Mapping[str, str], machine: Machine, present: Situation) -> tuple[Judged, ...]:
    """Each layout that this machine could have, with the reason of each that does not fit."""
    gpus = len(present.facts.gpus) if present.on_gpus else ON_CPU
    return tuple(Judged(layout, refusal(environ, machine, layout)) for layout in layouts(gpus))


def with_layout(environ: Mapping[str, str], layout: str) -> dict[str, str]:
    """The operator's settings with another layout, however theirs was spelled."""
    own = env_name("layout")
    kept = {name: value for name, value in environ.items() if name.upper() not in (own, *old_names(own))}
    return {**kept, own: layout}


def refusal(environ: Mapping[str, str], machine: Machine, layout: Layout) -> str | None:
    """Why it can't be run: the plan's own refusal, or the memory model's; in one line."""
    try:
        situation = survey(with_layout(environ, str(layout)), machine)
        situation.planned()
    except ApplianceError as error:
        return str(error).splitlines()[0]
    finding = memory_fit.CHECK.run(situation)
    return finding.read if finding.verdict is CheckVerdict.FAIL else None
