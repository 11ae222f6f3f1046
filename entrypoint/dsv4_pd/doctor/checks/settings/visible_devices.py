"""CUDA_VISIBLE_DEVICES from outside must not hide the cards."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, fail, ok, warn
from dsv4_pd.errors import SettingsError
from dsv4_pd.plan.situation import Situation

_NAME = "CUDA_VISIBLE_DEVICES"


def _run(s: Situation) -> Finding:
    if _NAME not in s.around.environ:
        return ok("not set")
    value = s.env(_NAME).strip()
    if value in ("", "-1", "none"):
        return fail(f"{_NAME}={value!r} hides every GPU", f"unset {_NAME}")
    return warn(
        f"{_NAME}={value}; the plan sets its own for the servers",
        f"unset {_NAME} and name the cards in DSV4_PREFILL_GPUS and DSV4_DECODE_GPUS",
    )


CHECK = Check(
    name="visible-devices",
    place=60,
    symptom='"no CUDA-capable device", or servers on other cards than expected',
    why="The variable's order and numbering differ from the driver's; an empty value hides all cards.",
    source="local-inference-lab/rtx6kpro daily summaries 2026-07-28 (an empty value reordered devices); vllm#20939",
    run=_run,
    expected="the variable unset, or naming cards",
    fatal=True,
    error=SettingsError,
)
