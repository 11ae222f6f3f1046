"""transformers' DeepseekV4ForCausalLM, written by others, as the oracle: same weights, whole distributions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from gpu.model import checkpoint
from gpu.model.shape import Shape

CHUNK = 1024  # rows of one forward: the indexer's scores alone take 256 bytes a row and compressed entry


def shape_of(folder: Path) -> Shape:
    """The shape of a checkpoint that `checkpoint.write` made."""
    config = json.loads((folder / "config.json").read_text())
    return Shape(
        heads=config["num_attention_heads"],
        layers=config["num_hidden_layers"],
        experts=config["n_routed_experts"],
        expert_width=config["moe_intermediate_size"],
        hidden=config["hidden_size"],
        head_dim=config["head_dim"],
        rope_dim=config["qk_rope_head_dim"],
        q_rank=config["q_lora_rank"],
        o_rank=config["o_lora_rank"],
        index_heads=config["index_n_heads"],
        index_dim=config["index_head_dim"],
        index_topk=config["index_topk"],
        window=config["sliding_window"],
        vocabulary=config["vocab_size"],
        context=config["max_position_embeddings"],
    )


def config_of(shape: Shape) -> Any:
    """transformers' configuration, from the words of the checkpoint's."""
    from transformers import DeepseekV4Config

    given = shape.config()
    for name in ("quantization_config", "architectures", "model_type", "topk_method", "kv_lora_rank", "torch_dtype"):
        given.pop(name)
    scaling = given.pop("rope_scaling")
    given["compress_ratios"] = list(shape.ratios)
    given["rope_parameters"] = {"rope_type": scaling.pop("type"), **scaling}
    return DeepseekV4Config(**given)


def empty(shape: Shape, device: str, dtype: torch.dtype) -> Any:
    """The model without meaningful weights; what transformers keeps in float32 stays so."""
    from transformers import DeepseekV4ForCausalLM
    from transformers.initialization import no_init_weights

    config = config_of(shape)
    # One grouped product for all experts where the card has it, a loop over them elsewhere.
    config._experts_implementation = "grouped_mm" if device != "cpu" else "eager"
    config._attn_implementation = "eager"
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device), no_init_weights():
            model = DeepseekV4ForCausalLM(config)
    finally:
        torch.set_default_dtype(before)
    for name, tensor in model.named_parameters():
        if any(part in name for part in model._keep_in_fp32_modules_strict):
            tensor.data = tensor.data.float()
    model.model.rotary_emb.__init__(config, device)
    for module in model.modules():
        if type(module).__name__ == "DeepseekV4RotaryEmbedding":
            type(module).__init__(module, config, device)
    return model


def load(folder: Path, device: str, dtype: torch.dtype = torch.float32) -> Any:
    """The oracle with a checkpoint's weights."""
    shape = shape_of(folder)
    model = empty(shape, device, dtype)
    own = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    with torch.no_grad():
        for name, value in checkpoint.dense(folder, shape):
            if own[name].shape != value.shape:
                raise SystemExit(
                    f"{name}: the checkpoint has {list(value.shape)}, transformers {list(own[name].shape)}"
                )
            own[name].copy_(value)
        for layer in range(shape.layers):
            up, down = checkpoint.routed(folder, shape, layer, device, dtype)
            own[f"model.layers.{layer}.mlp.experts.gate_up_proj"].copy_(up)
            own[f"model.layers.{layer}.mlp.experts.down_proj"].copy_(down)
    return model.eval().requires_grad_(False)


@torch.no_grad()
def log_probabilities(model: Any, tokens: list[int], last: int, chunk: int = CHUNK) -> torch.Tensor:
    """float32 [last, vocabulary] on the CPU: the distributions after each of the last tokens.

    Reads the prompt in chunks over transformers' own cache: whole, 30,000 tokens would need more than any card has.
    """
    from transformers import DynamicCache

    device = next(model.parameters()).device
    ids = torch.tensor([tokens], device=device)
    cache = DynamicCache(config=model.config)
    kept: list[torch.Tensor] = []
    for begin in range(0, len(tokens), chunk):
        part = ids[:, begin : begin + chunk]
        wanted = max(0, min(part.shape[1], begin + part.shape[1] - (len(tokens) - last)))
        out = model(input_ids=part, past_key_values=cache, use_cache=True, logits_to_keep=max(wanted, 1))
        if wanted:
            kept.append(torch.log_softmax(out.logits[0, -wanted:].float(), dim=-1).cpu())
    return torch.cat(kept)
