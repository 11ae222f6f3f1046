"""The roles must fit on the GPUs."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, fail, numbered, ok, warn
from dsv4_pd.host.facts import Gpu
from dsv4_pd.plan.notices import NoticeKind
from dsv4_pd.plan.placement.gpu_choice import unfit_reason
from dsv4_pd.plan.situation import Situation


def _run(s: Situation) -> Finding:
    if s.refusal is not None:
        first = s.refusal.problems[0] if s.refusal.problems else None
        read = "; ".join(f"{p.subject}: {p.found}, expected {p.expected}" for p in s.refusal.problems)
        return fail(read or str(s.refusal), first.remedy if first else "see the message")
    if s.placement is None:
        return fail("no plan", "run `dsv4-pd plan` to see why")
    parts = [f"{role.name} on {numbered(role.gpus) if role.gpus else 'the CPU'}" for role in s.placement.roles]
    read = f"profile {s.placement.profile}: {'; '.join(parts)}"
    idle = _idle(s)
    if idle:
        aside = "; ".join(notice.text for notice in s.notices if notice.kind is NoticeKind.CARD_UNFIT)
        return warn(
            f"{read}; {numbered(idle)} fit but stay idle{f' ({aside})' if aside else ''}",
            "fix the cards that are left aside, or name others in DSV4_PREFILL_GPUS and DSV4_DECODE_GPUS",
        )
    return ok(read)


def _idle(s: Situation) -> tuple[Gpu, ...]:
    """Cards that could work and don't."""
    need = s.profile.gpus if s.profile else None
    if need is None or s.placement is None:
        return ()
    used = {gpu.uuid for gpu in s.gpus}
    return tuple(gpu for gpu in s.facts.gpus if gpu.uuid not in used and unfit_reason(s.settings, need, gpu) is None)


CHECK = Check(
    name="gpu-plan",
    place=10,
    symptom="the start ends with exit code 2 or 70 and a list of GPUs",
    why="Overlap, duplicates, too few or wrong cards or too little memory would fail after 146 GB of loading.",
    source="vllm#20939; sglang#23657 (unsupported architecture after the load); 0xSero/deepseek-v4-flash-sm120#4",
    run=_run,
    expected="roles that fit on the GPUs",
    fatal=True,
    gpu_only=False,
)
