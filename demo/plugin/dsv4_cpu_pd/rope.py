"""Rotary position embedding for the CPU.

SGLang's RotaryEmbedding takes its kernel from `vllm._custom_ops` on every device that it has no kernel of its
own for. vLLM is no part of this engine, so that one module is provided here, with the one function in plain torch.
"""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import torch

from dsv4_cpu_pd.record import Record
from dsv4_cpu_pd.targets import TargetChanged

TARGET = "vllm._custom_ops.rotary_embedding"


def rotate(states: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, is_neox: bool) -> torch.Tensor:
    """states [tokens, heads, rotary_dim], cos and sin [tokens, 1, rotary_dim / 2]; neox pairs i with i + half."""
    if is_neox:
        first, second = states.chunk(2, dim=-1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
    even, odd = states[..., ::2], states[..., 1::2]
    return torch.stack((even * cos - odd * sin, odd * cos + even * sin), dim=-1).flatten(-2)


def rotary_embedding(
    positions: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor | None,
    head_size: int,
    cos_sin_cache: torch.Tensor,
    is_neox: bool = True,
) -> None:
    """In place, as the kernel it stands for. The cache row of a position is its cosines, then its sines."""
    rotary_dim = cos_sin_cache.shape[-1]
    rows = cos_sin_cache.index_select(0, positions.flatten()).float()
    cos, sin = (half.unsqueeze(1) for half in rows.chunk(2, dim=-1))
    for tensor in (query, key):
        if tensor is not None:
            heads = tensor.view(positions.numel(), -1, head_size)[..., :rotary_dim]
            heads.copy_(rotate(heads.float(), cos, sin, is_neox).to(tensor.dtype))


def install(record: Record) -> None:
    if importlib.util.find_spec("vllm") is not None:
        raise TargetChanged("vllm is installed beside SGLang: its own CUDA rotary_embedding would be taken")
    module = ModuleType("vllm._custom_ops")

    def first_call_recorded(*arguments: object, **options: object) -> None:
        record.active(TARGET)
        rotary_embedding(*arguments, **options)  # type: ignore[arg-type]

    module.__dict__["rotary_embedding"] = first_call_recorded
    # The parent package stays absent, so that nobody takes vLLM for installed.
    sys.modules[module.__name__] = module
    record.installed(TARGET)
