"""expandable_segments makes NIXL very slow."""

from __future__ import annotations

import re

from dsv4_pd.doctor.base import Check, Finding, fail, ok
from dsv4_pd.errors import SettingsError
from dsv4_pd.plan.situation import Situation

_NAMES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")


def _run(s: Situation) -> Finding:
    for name in _NAMES:
        if re.search(r"expandable_segments\s*:\s*true", s.env(name), re.IGNORECASE):
            return fail(f"{name}={s.env(name)}", f"unset {name}, or take expandable_segments out of it")
    return ok("not set")


CHECK = Check(
    name="expandable-segments",
    place=30,
    symptom="everything works, but first tokens of long prompts take minutes: KV moves at about 0.3 GB/s",
    why="Memory that PyTorch maps that way can't be shared by CUDA IPC, so UCX silently falls back to TCP.",
    source="ai-dynamo/nixl#1754; rtx6kpro PR#68 turns it off",
    run=_run,
    expected="no expandable_segments beside NIXL",
    fatal=True,
    error=SettingsError,
)
