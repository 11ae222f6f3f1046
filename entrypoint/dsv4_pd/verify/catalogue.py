"""Every check, in the order in which a failure explains the ones after it."""

from __future__ import annotations

from dsv4_pd.verify.base import Check
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
    Check("programs", "programs ready, none restarted", programs.check),
    Check("persistence", "comes back after a reboot", persistence.check),
    Check("kv_capacity", "KV capacity of both roles", kv_capacity.check),
    Check("gpu_memory", "GPU memory and role split", gpu_memory.check),
    Check("numa", "NUMA bindings in force", numa.check),
    Check("kernel_hooks", "engine plugins live", kernel_hooks.check),
    Check("auth", "API key enforced", auth.check),
    Check("metrics", "metrics from one address", metrics.check),
    Check("generation", "generation, streamed and not", generation.check),
    Check("kv_link", "KV cache crosses the link", kv_link.check),
    Check("equals_single", "answers equal to single mode's", equals_single.check),
    Check("needle", "needle at several depths", needle.check),
    Check("reasoning", "reasoning apart from the answer", reasoning.check),
    Check("tool_call", "tool call", tool_call.check),
    Check("parallel_tool_calls", "parallel tool calls", parallel_tool_calls.check),
    Check("text_before_call", "text before a call intact", text_before_call.check),
    Check("structured", "structured output", structured.check),
    Check("long_prompt", "prompt near the limit", long_prompt.check),
    Check("too_long", "a too long prompt is rejected", too_long.check),
    Check("empty_content", "no empty answers in bursts", empty_content.check),
    Check("compiles", "nothing compiled while serving", compiles.check),  # last: after all kinds of requests
)
NAMES = tuple(check.name for check in CHECKS)


def chosen(only: tuple[str, ...], skip: tuple[str, ...]) -> tuple[Check, ...]:
    """The checks that are wanted, in their order."""
    return tuple(c for c in CHECKS if (not only or c.name in only) and c.name not in skip)
