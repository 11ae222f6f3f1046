"""Which speculative algorithm is used: what the operator said, held against what the checkpoint has. Pure."""

from __future__ import annotations

from typing import Literal

from dsv4_pd.errors import Problem, SettingsError
from dsv4_pd.plan.model import checkpoint
from dsv4_pd.plan.model.checkpoint import Config

Algorithm = Literal["off", "eagle", "dspark"]
# The draft's experts stay MXFP4 in such a checkpoint. HybridFp8NvFp4Config gives them Mxfp4FlashinferTrtllmMoEMethod,
# whatever --speculative-moe-runner-backend says; only Fp8Config, which it stands for, asks which card it is.
_NVFP4_DRAFT = (
    "SGLang 0.5.23 computes the draft beside NVFP4 with a kernel of SM100 alone (HybridFp8NvFp4Config.get_quant_method "
    "of layers/quantization/modelopt_quant.py)"
)


def decide(asked: str, config: Config | None, model: str, device: str) -> tuple[Algorithm, str]:
    """The algorithm, and why it is off where `auto` might be expected to turn one on; "" where there is no more to say.

    Raises:
        SettingsError: an algorithm that can't work with this checkpoint or device.
    """
    if asked == "auto":
        return _best(config, device)
    if asked == "off" or (config is None and device == "cuda"):  # judged again when the model is here
        return ("off", "") if asked == "off" else (_known(asked), "")
    if device != "cuda":
        raise _refused(asked, "a CPU profile", "GPUs: the engine's drafts need CUDA")
    if checkpoint.has_nvfp4_experts(config or {}):
        raise _refused(asked, f"{model}, whose experts are NVFP4", f"experts in MXFP4 or FP8: {_NVFP4_DRAFT}")
    if asked not in (have := checkpoint.drafts(config or {})):
        has = f"a checkpoint with a block for {have[0]}" if have else "a checkpoint without a speculative block"
        better = f"set DSV4_SPECULATIVE={have[0]} or auto" if have else "set DSV4_SPECULATIVE=off"
        block = {"dspark": "dspark_* in config.json (DSV4_MODEL=flash-0731 has them)", "eagle": "an MTP layer"}[asked]
        raise SettingsError([Problem("DSV4_SPECULATIVE", f"{asked!r} and {model}, {has}", block, better)])
    return _known(asked), ""


def _best(config: Config | None, device: str) -> tuple[Algorithm, str]:
    """DSpark where the block is there and this card has a kernel for its experts."""
    if device != "cuda":
        return "off", "the drafts need CUDA"
    if config is None:
        return "off", "the model's config.json is not here yet"
    if "dspark" not in checkpoint.drafts(config):
        return "off", "the checkpoint has no DSpark block"
    if checkpoint.has_nvfp4_experts(config):
        return "off", f"the experts are NVFP4: {_NVFP4_DRAFT}"
    return "dspark", ""


def _known(asked: str) -> Algorithm:
    return "dspark" if asked == "dspark" else "eagle"


def _refused(asked: str, found: str, expected: str) -> SettingsError:
    problem = Problem("DSV4_SPECULATIVE", f"{asked!r} and {found}", expected, "set DSV4_SPECULATIVE=off or auto")
    return SettingsError([problem])
