"""Checks of model/variants.py that need the engine's environment and no card: run by engine_side.py.

What they can't tell: whether a kernel computes any of it. That is part `variants`, on a card.
"""

from __future__ import annotations

import inspect
import json
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from safetensors import safe_open

from gpu.model import checkpoint, formats, initial, reference, train, variants, widen
from gpu.model.shape import Shape

ROOT = Path(__file__).resolve().parents[2]
TINY = replace(Shape(heads=16), **train.TINY)
WRITTEN = {"nvfp4": variants.nvfp4, "dspark": variants.dspark, "eagle": variants.eagle}
EXPERT = "layers.3.ffn.experts.5"
LAST = f"layers.{TINY.layers - 1}."


def written() -> Path:
    """A folder with the tiny checkpoint and its variants: RING_VARIANTS, where a test looks at them afterwards."""
    folder = Path(os.environ.get("RING_VARIANTS") or tempfile.mkdtemp())
    if not (folder / "nvfp4-dspark").exists():
        model = reference.empty(TINY.narrow(), "cpu", torch.float32)
        initial.initialise(model, TINY.narrow())
        checkpoint.write(TINY, widen.widened(TINY, train.kept(model)), ROOT / "demo/model", folder / "base", "cpu")
        for name, write in WRITTEN.items():
            write(folder / "base", folder / name)
        variants.nvfp4(folder / "dspark", folder / "nvfp4-dspark")
    return folder


FOLDER: list[Path] = []


def at(name: str) -> Path:
    FOLDER[:] = FOLDER or [written()]
    return FOLDER[0] / name


def tensors(name: str) -> dict[str, torch.Tensor]:
    """Every tensor that the index of a variant names, from the file that it names."""
    index = json.loads((at(name) / variants.INDEX).read_text())
    found: dict[str, torch.Tensor] = {}
    for file in set(index["weight_map"].values()):
        with safe_open(str(at(name) / file), "pt") as source:
            found |= {key: source.get_tensor(key) for key in source.keys()}  # noqa: SIM118
    assert set(found) == set(index["weight_map"]), "no name without a tensor, no tensor without a name"
    assert variants.size(found.values()) == index["metadata"]["total_size"]
    return found


def nvfp4_is_the_same_values_by_the_engine_s_own_reading() -> None:
    from sglang.srt.layers.quantization.dequantization import dequantize_nvfp4

    before, after = tensors("base"), tensors("nvfp4")
    for matrix in ("w1", "w2", "w3"):
        codes, scale, whole = (
            after[f"{EXPERT}.{matrix}.{part}"] for part in ("weight", "weight_scale", "weight_scale_2")
        )
        wanted = formats.from_mxfp4(before[f"{EXPERT}.{matrix}.weight"], before[f"{EXPERT}.{matrix}.scale"])
        assert torch.equal(dequantize_nvfp4(codes, scale, whole, torch.float32), wanted), matrix
        assert torch.equal(formats.from_nvfp4(codes, scale, whole), wanted), matrix
        assert len(scale.float().unique()) > 1, "a scale of a wrong group would be noticed"
    wide = torch.tensor([[1.0, 2.0**-30]]).to(torch.float8_e8m0fnu)
    try:
        formats.nvfp4_of_mxfp4(torch.zeros(1, 32, dtype=torch.int8), wide)
    except ValueError:
        return
    raise AssertionError("scales that e4m3 can't hold were written")


def nvfp4_method() -> Any:
    """The engine's method for NVFP4 experts, without the question which card is there."""
    from sglang.srt.layers.quantization.modelopt_quant import ModelOptFp4Config, ModelOptNvFp4FusedMoEMethod

    method = object.__new__(ModelOptNvFp4FusedMoEMethod)
    method.quant_config = ModelOptFp4Config(is_checkpoint_nvfp4_serialized=True, group_size=16, exclude_modules=[])
    method.enable_flashinfer_trtllm_moe = method.use_flashinfer_trtllm_weight_layout = False
    return method


def nvfp4_experts_are_what_the_engine_makes_room_for() -> None:
    """Names, kinds and sizes of the parameters that its own method creates for a layer of this shape."""
    from sglang.srt.layers.moe.fused_moe_triton import FusedMoE
    from sglang.srt.models.deepseek_v4 import DeepseekV4ForCausalLM

    layer = torch.nn.Module()
    layer.num_local_experts = layer.num_experts = TINY.experts
    layer.moe_runner_config = SimpleNamespace(is_gated=True)
    sizes = (TINY.experts, TINY.hidden, TINY.expert_width)
    nvfp4_method().create_weights(layer, *sizes, torch.bfloat16, weight_loader=None)
    places = dict(layer.named_parameters())
    mapping = FusedMoE.make_expert_params_mapping("gate_proj", "down_proj", "up_proj", TINY.experts)
    filled = set()
    for name, value in tensors("nvfp4").items():
        if not name.startswith("layers.3.ffn.experts."):
            continue
        theirs = DeepseekV4ForCausalLM.remap_weight_name_to_dpsk_hf_format(name)
        ((param, given, *_),) = [row for row in mapping if row[1] in theirs]
        place = theirs.replace(given, param).removeprefix("model.layers.3.mlp.experts.")
        room = places[place]
        filled.add(place)
        assert value.dtype == room.dtype, (name, value.dtype, room.dtype)
        shape = list(room.shape[1:]) if value.dim() else []
        if shape and place.startswith("w13"):  # gate and up, one behind the other
            shape[0] //= 2
        assert list(value.shape) == shape, (name, value.shape, room.shape)
    assert filled == {name for name in places if "swizzled" not in name}, "every parameter gets a tensor"


def the_engine_knows_each_variant() -> None:
    """By its own reading of config.json and of the weights' headers."""
    from sglang.srt.configs.deepseek_v4 import try_detect_fp4_experts
    from sglang.srt.configs.model_config import ModelConfig
    from sglang.srt.speculative.dspark_components.dspark_config import (
        checkpoint_bundles_dspark_draft,
        parse_dspark_draft_config,
    )

    for name in ("base", *WRITTEN, "nvfp4-dspark"):
        assert try_detect_fp4_experts(str(at(name))) is True, name
        config = ModelConfig(str(at(name)))
        assert (config.nvfp4_moe_meta is not None) is ("nvfp4" in name), name
        assert checkpoint_bundles_dspark_draft(config.hf_config) is ("dspark" in name), name
    found = parse_dspark_draft_config(draft_hf_config=ModelConfig(str(at("dspark"))).hf_config)
    layers = TINY.layers
    assert (found.gamma, found.markov_rank, found.target_layer_ids) == (5, 256, [layers - 2, layers - 1])
    assert found.mask_token_id is not None and found.mask_token_id < TINY.vocabulary


def _own(name: str) -> str:
    """A layer's tensor by the name of the parameter that it fills, as the target's loader maps it."""
    from sglang.srt.models.deepseek_v4 import DeepseekV4ForCausalLM

    return str(DeepseekV4ForCausalLM.remap_weight_name_to_dpsk_hf_format(name)).removeprefix(f"model.{LAST}")


def layer_parameters() -> set[str]:
    """Of a layer with scored routing, but for what a draft's attention, which has a window alone, does not have."""
    mine = [name for name in tensors("base") if name.startswith(LAST) and ".attn.compressor." not in name]
    return {_own(name) for name in mine}


def dspark_s_tensors_all_have_a_place() -> None:
    from sglang.srt.models import deepseek_v4_dspark as engine
    from sglang.srt.models.dspark import DSparkConfidenceHead

    model = SimpleNamespace(confidence_head=object())
    mine = {name: value for name, value in tensors("dspark").items() if name.startswith("mtp.")}
    mapped = {name: engine.DeepseekV4ForCausalLMDSpark._remap_dspark_weight_name(model, name) for name in mine}
    assert None not in mapped.values() and len(set(mapped.values())) == len(mapped)
    rest: set[str] = set()
    for number in range(variants.STAGES):
        own = {
            place.removeprefix(f"stages.{number}.")
            for place in mapped.values()
            if place.startswith(f"stages.{number}.")
        }
        assert own >= layer_parameters(), sorted(layer_parameters() - own)
        rest |= {f"{number}.{name}" for name in own - layer_parameters()}
    last = variants.STAGES - 1
    heads = {f"{last}.{name}" for name in ("norm.weight", "hc_head_fn", "hc_head_base", "hc_head_scale")}
    assert rest == heads | {"0.main_proj.weight", "0.main_proj.weight_scale_inv", "0.main_norm.weight"}
    text = inspect.getsource(engine.DSparkV4StageMixin.__init__)
    assert all(f"self.{name}" in text for name in ("main_proj", "main_norm", "norm", "hc_head_fn"))
    others = {place: mine[name] for name, place in mapped.items() if not place.startswith("stages.")}
    assert {place: tuple(value.shape) for place, value in others.items()} == {
        "markov_head.markov_w1.weight": (TINY.vocabulary, 256),
        "markov_head.markov_w2.weight": (TINY.vocabulary, 256),
        "confidence_head.proj.weight": (1, TINY.hidden + 256),
    }
    head = DSparkConfidenceHead(hidden_size=TINY.hidden, markov_rank=256, bias=False)
    assert tuple(head.proj.weight.shape) == (1, TINY.hidden + 256)
    assert tuple(mine["mtp.0.main_proj.weight"].shape) == (TINY.hidden, TINY.hidden * variants.STAGES)


def an_mtp_layer_s_tensors_all_have_a_place() -> None:
    from sglang.srt.models.deepseek_v4 import DeepseekV4ForCausalLM
    from sglang.srt.models.deepseek_v4_nextn import DeepseekV4ModelNextN

    mine = [name for name in tensors("eagle") if name.startswith("mtp.")]
    remap = DeepseekV4ForCausalLM.remap_weight_name_to_dpsk_hf_format
    places = {remap(name, is_nextn=True, num_hidden_layers=TINY.layers) for name in mine}
    own = {place.removeprefix(f"model.layers.{TINY.layers}.") for place in places}
    assert own - layer_parameters() == {
        "e_proj.weight", "e_proj.weight_scale_inv", "h_proj.weight", "h_proj.weight_scale_inv", "enorm.weight",
        "hnorm.weight", "shared_head.norm.weight", "hc_head_fn", "hc_head_base", "hc_head_scale",
    }  # fmt: skip
    assert own >= layer_parameters()
    text = inspect.getsource(DeepseekV4ModelNextN.__init__)
    assert all(
        f"self.{name}" in text for name in ("e_proj", "h_proj", "enorm", "hnorm", "shared_head.norm", "hc_head_fn")
    )


def a_draft_s_experts_stay_what_they_were() -> None:
    """In the mixed format too: the engine adds the draft to what its NVFP4 configuration leaves out."""
    both, plain = tensors("nvfp4-dspark"), tensors("dspark")
    own = [name for name in plain if name.startswith("mtp.")]
    assert own and all(torch.equal(both[name].view(torch.uint8), plain[name].view(torch.uint8)) for name in own)
    assert all(f"{EXPERT}.w1.{part}" in both for part in ("weight_scale", "weight_scale_2", "input_scale"))
    assert f"{EXPERT}.w1.scale" not in both


def the_variants_servers_have_the_engine_s_flags() -> None:
    import argparse

    from sglang.srt.server_args import ServerArgs

    from gpu.parts.variant_lineup import VARIANTS

    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    for one in VARIANTS:
        words = one.server.command()[3:]
        parser.parse_args(words)
        assert words[words.index("--model-path") + 1] == str(one.server.model)


CHECKS = (
    nvfp4_is_the_same_values_by_the_engine_s_own_reading,
    nvfp4_experts_are_what_the_engine_makes_room_for,
    the_engine_knows_each_variant,
    dspark_s_tensors_all_have_a_place,
    an_mtp_layer_s_tensors_all_have_a_place,
    a_draft_s_experts_stay_what_they_were,
    the_variants_servers_have_the_engine_s_flags,
)
