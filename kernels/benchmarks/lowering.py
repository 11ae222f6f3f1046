"""sm_120's lowering on the card at hand: Triton's passes run as for sm_120 (mma.sync, no wgmma, its shared memory), and
only the last step, from PTX on, is for this card. It says what the tiles cost without Hopper's instructions; it says
nothing of another card's memory or clock.
"""

from __future__ import annotations

import tempfile
from typing import Any

import triton

SM120 = 120


def lower_for_sm120(
    backend: Any = None, stages: Any = None, options: Any = None, language: Any = None, capability: Any = None
) -> tuple[str, str] | None:
    """Triton's hook for other stages. Without arguments (from Triton 3.7 on) it names them for the cache's key."""
    del language, capability
    if backend is None:
        return "sm_120 lowering", "sm_120 lowering"
    stages["ttir"] = lambda source, metadata: backend.make_ttir(source, metadata, options, SM120)
    stages["ttgir"] = lambda source, metadata: backend.make_ttgir(source, metadata, options, SM120)
    stages["llir"] = lambda source, metadata: backend.make_llir(source, metadata, options, SM120)
    return None


def install() -> None:
    """Triton 3.6 does not ask for the name, so these builds get a cache of their own."""
    triton.knobs.cache.dir = tempfile.mkdtemp(prefix="sm120-lowering-")
    triton.knobs.runtime.add_stages_inspection_hook = lower_for_sm120
