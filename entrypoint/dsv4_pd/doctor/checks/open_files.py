"""Enough file descriptors, and not absurdly many."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, fail, ok, warn
from dsv4_pd.plan.situation import Situation

# The engine raises its own soft limit to 65,535 where the hard limit allows.
_NEED, _WISH, _ABSURD = 4096, 65_535, 1 << 27
_REMEDY = "start the container with --ulimit nofile=1048576:1048576"


def _run(s: Situation) -> Finding:
    soft, hard = s.facts.limits.nofile, s.facts.limits.nofile_hard
    if soft is None or hard is None:
        return ok("not readable")
    read = f"{_word(soft)}, may be raised to {_word(hard)}"
    if soft == -1 or soft >= _ABSURD:
        return warn(f"{_word(soft)}: programs that close every descriptor crawl", _REMEDY)
    if hard != -1 and hard < _WISH:
        return fail(read, _REMEDY) if hard < _NEED else warn(read, _REMEDY)
    return ok(read)


def _word(limit: int) -> str:
    return "unlimited" if limit == -1 else str(limit)


CHECK = Check(
    name="open-files",
    symptom='"Too many open files" under load; or supervisord and child starts hang at 100 % CPU',
    why="Each client, KV connection and shard takes one. With a limit of a thousand million, programs that close "
    "every possible descriptor before they start a child need minutes.",
    source="gpustack pack entrypoint (floor 65535); moby/moby#38814 (huge nofile makes process start slow)",
    run=_run,
    expected="4096 or more file descriptors",
    fatal=True,
    gpu_only=False,
)
