"""Enough file descriptors, and not absurdly many."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, fail, ok, warn
from dsv4_pd.plan.situation import Situation

# `serve` raises its own soft limit to 65,536, and lowers one above a million, for all that it starts
# (run/supervision/inherited.py); so only the hard limit can be too low, and no soft limit too high.
_NEED, _WISH, _MOST = 4096, 65_535, 1_048_576
_REMEDY = "start the container with --ulimit nofile=1048576:1048576"


def _run(s: Situation) -> Finding:
    soft, hard = s.facts.limits.nofile, s.facts.limits.nofile_hard
    if soft is None or hard is None:
        return ok("not readable")
    read = f"{_word(soft)}, may be raised to {_word(hard)}"
    if soft == -1 or soft > _MOST:
        return ok(f"{read}; `serve` lowers it to {_MOST} for its programs")
    if hard != -1 and hard < _WISH:
        return fail(read, _REMEDY) if hard < _NEED else warn(read, _REMEDY)
    return ok(read)


def _word(limit: int) -> str:
    return "unlimited" if limit == -1 else str(limit)


CHECK = Check(
    name="open-files",
    place=80,
    symptom='"Too many open files" under load; or supervisord and child starts hang at 100 % CPU',
    why="Each client, KV connection and shard takes one; `serve` raises the soft limit to 65,536 where the hard one "
    "allows. With a limit of a billion, programs that close every possible descriptor before they start a "
    "child need minutes; `serve` lowers it to a million.",
    source="gpustack pack entrypoint (floor 65535); moby/moby#38814 (huge nofile makes process start slow)",
    run=_run,
    expected="4096 or more file descriptors",
    fatal=True,
    gpu_only=False,
)
