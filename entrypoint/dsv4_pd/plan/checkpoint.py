"""What a model's config.json says that flags and memory depend on. Pure.

The rules are the engine's own (SGLang 0.5.23): how it knows experts in NVFP4 (`configs/model_config.py`) and a DSpark
block (`speculative/dspark_components/dspark_config.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_DSPARK = ("dspark_block_size", "dspark_markov_rank", "dspark_noise_token_id", "dspark_target_layer_ids")
Config = Mapping[str, Any]


def has_nvfp4_experts(config: Config) -> bool:
    """Whether the routed experts are NVFP4, the rest FP8."""
    quantization = config.get("quantization_config") or {}
    mixed = str(quantization.get("quant_algo", "")).upper() == "MIXED_PRECISION"
    return (
        mixed
        and str(quantization.get("moe_quant_algo", "")).upper() == "NVFP4"
        and bool(quantization.get("group_size"))
    )


def drafts(config: Config) -> tuple[str, ...]:
    """The speculative algorithms for which the checkpoint has weights, the better one first.

    A DSpark checkpoint's `mtp.*` layers are its stages: they have no projections for EAGLE.
    """
    if any(config.get(key) is not None for key in _DSPARK):
        return ("dspark",)
    eagle = config.get("model_type") == "deepseek_v4" and (config.get("num_nextn_predict_layers") or 0) > 0
    return ("eagle",) if eagle else ()


def draft_stages(config: Config) -> int:
    """Layers of the speculative block."""
    return len(config.get("dspark_target_layer_ids") or ()) or 1


def expert_flags(config: Config | None, algorithm: str) -> dict[str, Any]:
    """How the experts are computed on sm_120, where the engine's own choice is for another card."""
    if config is None or not has_nvfp4_experts(config):
        return {}
    # The engine picks flashinfer_trtllm_routed for this format, which is SM100's alone.
    flags = {"moe-runner-backend": "flashinfer_cutlass"}
    # The draft's experts stay MXFP4 in such a checkpoint, and would be given to the target's backend.
    return flags if algorithm == "off" else flags | {"speculative-moe-runner-backend": "flashinfer_mxfp4"}
