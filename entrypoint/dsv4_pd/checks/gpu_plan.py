"""The roles must fit on the GPUs."""

from __future__ import annotations

from dsv4_pd.checks.base import Check, Finding, Situation, fail, ok


def _run(s: Situation) -> Finding:
    if s.refusal is not None:
        first = s.refusal.problems[0] if s.refusal.problems else None
        read = "; ".join(f"{p.subject}: {p.found}, expected {p.expected}" for p in s.refusal.problems)
        return fail(read or str(s.refusal), first.remedy if first else "see the message")
    if s.placement is None:
        return fail("no plan", "run `dsv4-pd plan` to see why")
    parts = [f"{role.role} on GPU {', '.join(str(gpu.index) for gpu in role.gpus)}" for role in s.placement.roles]
    return ok(f"profile {s.placement.profile}: {'; '.join(parts)}")


CHECK = Check(
    name="gpu-plan",
    symptom="the start ends with exit code 2 or 70 and a list of GPUs",
    why="Overlap, doubles, too few, the wrong architecture or too little memory would fail after 146 GB of loading.",
    source="vllm#20939; sglang#23657 (unsupported architecture after the load); 0xSero/deepseek-v4-flash-sm120#4",
    run=_run,
    expected="roles that fit on the GPUs",
    fatal=True,
)
