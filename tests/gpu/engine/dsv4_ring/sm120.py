"""DeepSeek-V4's attention, indexer and MHC take the code path of an sm_120 card on a card that is none.

Only these modules are told so: the choice of GEMM and of MoE kernels stays the card's own. FlashInfer's sparse MLA for
sm_120 does not run elsewhere, so SGLang's Triton kernel is the engine's own there. Never a claim about an sm_120 card.
"""

from __future__ import annotations

import os
import sys

MODULES = frozenset(
    {
        "sglang.srt.models.deepseek_v4",
        "sglang.srt.layers.attention.deepseek_v4_backend",
        "sglang.srt.layers.attention.dsv4.indexer",
        "sglang.srt.models.deepseek_common.amd.deepseek_v4_fused_mhc",
    }
)
# What SGLang 0.5.23 sets on sm_120 (srt/arg_groups/model_hook.py:482-502), with Triton in FlashInfer's place.
DEFAULTS = {
    "SGLANG_ENABLE_JIT_DEEPGEMM": "0",
    "SGLANG_FP8_PAGED_MQA_LOGITS_TORCH": "1",
    "SGLANG_OPT_DEEPGEMM_HC_PRENORM": "0",
    "SGLANG_OPT_FP8_WO_A_GEMM": "0",
    "SGLANG_OPT_FUSE_MHC_POST_PRE": "1",
    "SGLANG_OPT_USE_TILELANG_INDEXER": "1",
    "SGLANG_OPT_USE_TILELANG_MHC_PRE": "0",
    "SGLANG_OPT_USE_TOPK_V2": "0",
    "SGLANG_SM120_FLASHMLA_BACKEND": "triton",
}


def take_path() -> None:
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    from sglang.srt.runtime_context import PlatformContext

    own = PlatformContext.__getattr__

    def answer(self: PlatformContext, name: str) -> object:
        # Who asks: the frame that reads the attribute.
        if name == "is_sm120" and sys._getframe(1).f_globals.get("__name__") in MODULES:
            return True
        return own(self, name)

    PlatformContext.__getattr__ = answer
