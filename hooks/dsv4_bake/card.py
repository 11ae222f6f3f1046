"""Let torch and Triton believe that an sm_120 card is there, so that the engine's builders choose and key as on one.

Only what the builders ask: whether there is a card, its capability, its count of SMs. Nothing can be computed. What the
engine derives from it reaches the keys of the compiled modules: compiler flags that only a card gets, the target, tile
shapes by SMs.
"""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

CAPABILITY = (12, 0)
SMS = 188
NAME = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
SHARED_BYTES = 101_376  # of a block at most
# What the engine itself sets on such a card when it resolves its arguments (srt/arg_groups/model_hook.py), and which
# kernels it takes follows. A test compares.
ENGINE_SETS = {
    "SGLANG_OPT_FP8_WO_A_GEMM": "0",
    "SGLANG_OPT_USE_TOPK_V2": "0",
    "SGLANG_OPT_USE_TILELANG_MHC_PRE": "0",
    "SGLANG_OPT_FUSE_MHC_POST_PRE": "1",
    "SGLANG_OPT_DEEPGEMM_HC_PRENORM": "0",
    "SGLANG_FP8_PAGED_MQA_LOGITS_TORCH": "1",
    "SGLANG_OPT_USE_TILELANG_INDEXER": "1",
}


def stand_in() -> None:
    """From here on, in this process."""
    os.environ.update(ENGINE_SETS)
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
