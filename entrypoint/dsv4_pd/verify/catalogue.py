"""Every check, in the order in which a failure explains the ones after it."""

from __future__ import annotations

from dsv4_pd.verify.base import AcceptanceCheck
from dsv4_pd.verify.checks import (
    auth,
    compiles,
    empty_content,
    equals_single,
    generation,
    gpu_memory,
    kernel_hooks,
    kv_capacity,
    kv_link,
    long_prompt,
    metrics,
    needle,
    numa,
    parallel_tool_calls,
    persistence,
    programs,
    reasoning,
    structured,
    text_before_call,
    too_long,
    tool_call,
)

CHECKS = (
    AcceptanceCheck("programs", "programs ready, none restarted", programs.check),
    AcceptanceCheck("persistence", "comes back after a reboot", persistence.check),
    AcceptanceCheck("kv_capacity", "KV capacity of both roles", kv_capacity.check),
    AcceptanceCheck("gpu_memory", "GPU memory and role split", gpu_memory.check),
    AcceptanceCheck("numa", "NUMA bindings in force", numa.check),
    AcceptanceCheck("kernel_hooks", "engine plugins live", kernel_hooks.check),
    AcceptanceCheck("auth", "API key enforced", auth.check),
    AcceptanceCheck("metrics", "metrics from one address", metrics.check),
    AcceptanceCheck("generation", "generation, streamed and not", generation.check),
    AcceptanceCheck("kv_link", "KV cache crosses the link", kv_link.check),
    AcceptanceCheck("equals_single", "answers equal to single mode's", equals_single.check),
    AcceptanceCheck("needle", "needle at several depths", needle.check),
    AcceptanceCheck("reasoning", "reasoning apart from the answer", reasoning.check),
    AcceptanceCheck("tool_call", "tool call", tool_call.check),
    AcceptanceCheck("parallel_tool_calls", "parallel tool calls", parallel_tool_calls.check),
    AcceptanceCheck("text_before_call", "text before a call intact", text_before_call.check),
    AcceptanceCheck("structured", "structured output", structured.check),
    AcceptanceCheck("long_prompt", "prompt near the limit", long_prompt.check),
    AcceptanceCheck("too_long", "a too long prompt is rejected", too_long.check),
    AcceptanceCheck("empty_content", "no empty answers in bursts", empty_content.check),
    AcceptanceCheck("compiles", "nothing compiled while serving", compiles.check),  # last: after all kinds of requests
)
NAMES = tuple(check.name for check in CHECKS)


def chosen(only: tuple[str, ...], skip: tuple[str, ...]) -> tuple[AcceptanceCheck, ...]:
    """The checks that are wanted, in their order."""
    return tuple(c for c in CHECKS if (not only or c.name in only) and c.name not in skip)
