"""Each role holds as many tokens of KV as its memory should give, and at least one longest request."""

from __future__ import annotations

from typing import Any

from dsv4_pd.run.states import WAY
from dsv4_pd.verify.base import Result, Subject, failed, passed, skipped
from dsv4_pd.verify.sizing import context_length

TOLERANCE = 0.10  # below the model's figure by more than this: something else sits in the memory


def check(subject: Subject) -> Result:
    """Measured tokens against the expected ones, both roles."""
    status = subject.status
    about = status.get("about") or {}
    servers = {name: role for name, role in status.get("roles", {}).items() if name not in WAY}
    held = {name: role.get("kv_capacity_tokens") for name, role in servers.items()}
    if not servers or any(tokens is None for tokens in held.values()):
        return failed(f"a role does not report its KV capacity: {held}", "its /metrics must answer; see dsv4-pd status")
    return judge(held, about.get("expected_kv_tokens") or {}, context_length(subject.ops))


def judge(held: dict[str, Any], expected: dict[str, int], context: int | None) -> Result:
    """The verdict on what each role holds."""
    told = ", ".join(f"{name} {tokens:,} tokens" for name, tokens in held.items())
    details = {"held": held, "expected": expected, "context": context}
    for name, tokens in held.items():
        if context and tokens < context:
            return failed(
                f"{name} holds {tokens:,} tokens, less than one longest request of {context:,}",
                "lower DSV4_CONTEXT_LENGTH, or raise DSV4_PREFILL_MEM_FRACTION / DSV4_DECODE_MEM_FRACTION",
                **details,
            )
        wanted = expected.get(name)
        if wanted and tokens < wanted * (1 - TOLERANCE):
            return failed(
                f"{name} holds {tokens:,} tokens, the memory model expects {wanted:,}",
                f"something else holds memory on {name}'s devices, or its flags differ: dsv4-pd doctor",
                **details,
            )
    if not expected:
        return skipped(f"no memory model for this profile; {told}", "compare with an earlier receipt")
    return passed(f"{told}; expected {', '.join(f'{n} {t:,}' for n, t in expected.items())}", **details)
