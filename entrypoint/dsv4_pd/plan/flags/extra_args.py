"""Extra arguments of a server as the engine reads them: abbreviations and other spellings by the flag's own name."""

from __future__ import annotations

import shlex
from functools import lru_cache
from types import MappingProxyType

from dsv4_pd.plan.flags import command_line


@lru_cache(maxsize=32)
def engine_flags(text: str) -> MappingProxyType[str, tuple[str, ...]]:
    """Flags of shell words -> their values, of the last time that each is given: argparse has it so.

    >>> dict(engine_flags("--moe-runner triton --max_total_tokens 5 --max-total-tokens=6 --on"))
    {'--moe-runner-backend': ('triton',), '--max-total-tokens': ('6',), '--on': ()}
    """
    found, _ = command_line.read(shlex.split(text), "engine")
    return MappingProxyType({flag.name: flag.values for flag in found})
