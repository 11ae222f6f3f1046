"""Let torch and Triton believe that an sm_120 card is there, so that the engine's builders choose and key as on one.

Only what the builders ask: whether there is a card, its capability, its count of SMs. Nothing can be computed. What the
engine derives from it reaches the keys of the compiled modules: compiler flags that only a card gets, the target, tile
shapes by SMs.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

CAPABILITY = (12, 0)
SMS = 188
NAME = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
SHARED_BYTES = 101_376  # of a block at most


def stand_in() -> None:
    """From here on, in this process."""
    import torch

    properties = SimpleNamespace(
        name=NAME, major=CAPABILITY[0], minor=CAPABILITY[1], multi_processor_count=SMS, total_memory=97_887 << 20,
        shared_memory_per_block_optin=SHARED_BYTES, warp_size=32, L2_cache_size=128 << 20,
    )  # fmt: skip
    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_capability": lambda device=None: CAPABILITY,
        "get_device_name": lambda device=None: NAME,
        "get_device_properties": lambda device=None: properties,
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)
    if torch.version.cuda is None:
        raise SystemExit("torch: found a build without CUDA, expected the engine's own; bake in the image's stage")
