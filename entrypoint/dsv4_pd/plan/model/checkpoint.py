"""What a model's config.json says that flags and memory depend on. Pure.

The rules are the engine's own (SGLang 0.5.23): how it knows experts in NVFP4 (`configs/model_config.py`) and a DSpark
block (`speculative/dspark_components/dspark_config.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dsv4_pd.plan.model.config import sound

_DSPARK = ("dspark_block_size", "dspark_markov_rank", "dspark_noise_token_id", "dspark_target_layer_ids")
Config = Mapping[str, Any]


def quantization(config: Config) -> Config:
    """Its quantization_config; empty where there is none, or something that is no object."""
    found = config.get("quantization_config")
    return found if isinstance(found, Mapping) else {}


def has_nvfp4_experts(config: Config) -> bool:
    """Whether the routed experts are NVFP4, the rest FP8.

    These three keys, and FP8 as the method of the rest: with another one the engine (`_get_quantization_config` of
    model_loader/loader.py) does not make it HybridFp8NvFp4Config.
    """
    found = quantization(config)
    return (
        _word(found, "quant_method") == "fp8"
        and _word(found, "quant_algo") == "mixed_precision"
        and _word(found, "moe_quant_algo") == "nvfp4"
        and found.get("group_size") is not None
    )


def foreign(config: Config) -> str | None:
    """A quantization that is none of DeepSeek's own nor the mixed one above, in config.json's words.

    The engine may read it (ModelOpt's NVFP4 of every layer, compressed-tensors): nothing here knows its experts' bytes,
    and which kernels of this card compute them.
    """
    if has_nvfp4_experts(config):
        return None
    if config.get("compression_config"):
        return "compression_config"
    found = quantization(config)
    said = {key: value for key in ("quant_method", "quant_algo") if (value := found.get(key)) not in (None, "")}
    if not said or said == {"quant_method": "fp8"}:
        return None
    return ", ".join(f"{key} {value!r}" for key, value in said.items())


def _word(found: Config, key: str) -> str:
    return str(found.get(key) or "").lower()


def expert_format(config: Config) -> str | None:
    """Of the routed experts' weights: nvfp4, mxfp4 or fp8; None where config.json does not say, or in words that are
    not known here.

    The engine looks into the weights then (`try_detect_fp4_experts` of configs/deepseek_v4.py): checkpoints that were
    converted to FP8 keep the original's config.json.
    """
    config = sound(config)
    if has_nvfp4_experts(config):
        return "nvfp4"
    if foreign(config):
        return None
    named = _word(quantization(config), "routed_experts_quant_method") or _word(config, "expert_dtype")
    return {"mxfp4": "mxfp4", "fp4": "mxfp4", "fp8": "fp8"}.get(named)


def drafts(config: Config) -> tuple[str, ...]:
    """The speculative algorithms for which the checkpoint has weights, the better one first.

    A DSpark checkpoint's `mtp.*` layers are its stages: they have no projections for EAGLE.
    """
    config = sound(config)
    if any(config.get(key) is not None for key in _DSPARK):
        return ("dspark",)
    eagle = config.get("model_type") == "deepseek_v4" and (config.get("num_nextn_predict_layers") or 0) > 0
    return ("eagle",) if eagle else ()


def draft_stages(config: Config) -> int:
    """Layers of the speculative block."""
    return len(sound(config).get("dspark_target_layer_ids") or ()) or 1


# Of the engine's runners, those that its NVFP4 experts have a way through (ModelOptNvFp4FusedMoEMethod.apply of
# layers/quantization/modelopt_quant.py) and that are not for SM100 alone, as the engine's own choice for them is
# (flashinfer_trtllm_routed).
NVFP4_RUNNERS = ("flashinfer_cutlass", "flashinfer_cutedsl", "marlin")


def expert_flags(config: Config | None) -> dict[str, Any]:
    """How the experts are computed on sm_120, where the engine's own choice is for another card."""
    return {"moe-runner-backend": NVFP4_RUNNERS[0]} if config is not None and has_nvfp4_experts(config) else {}
