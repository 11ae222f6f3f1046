"""All cards in use must be of one architecture, sm_120."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, fail, ok, warn
from dsv4_pd.plan.situation import Situation

SM_120 = (12, 0)


def _run(s: Situation) -> Finding:
    found = sorted({gpu.compute_capability for gpu in s.gpus})
    read = ", ".join(f"{major}.{minor}" for major, minor in found) or "none"
    wanted = s.profile.gpus.compute_capability if s.profile and s.profile.gpus else SM_120
    if any(capability != wanted for capability in found):
        want = ".".join(map(str, wanted))
        return fail(
            f"compute capability {read}; the profile is for {want}",
            "choose the right cards with DSV4_PREFILL_GPUS and DSV4_DECODE_GPUS",
        )
    names = sorted({gpu.name for gpu in s.gpus})
    if len(names) > 1:
        return warn(
            f"different cards in one group: {', '.join(names)}",
            "put equal cards into one role: DSV4_PREFILL_GPUS, DSV4_DECODE_GPUS",
        )
    return ok(f"compute capability {read} ({', '.join(names)})")


CHECK = Check(
    name="gpu-architecture",
    place=20,
    symptom='"no kernel image is available" or "unsupported architecture" at the first request',
    why="The kernels are built for sm_120; another card fails late, and the slowest card paces its group.",
    source="sglang#23657; vllm#47266; vllm-project/recipes PR#760",
    run=_run,
    expected="cards of the profile's architecture",
    fatal=True,
)
