"""From the engine's calls to our ops. Each refusal is a reason in words; the engine's own function then runs.

The shapes that pass are those of the measured tables in docs/kernels; nothing here reads device memory.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

from dsv4_kernels import layout
from dsv4_kernels.cards import Card
from dsv4_kernels.mhc_post_pre.op import mhc_post_pre
from dsv4_kernels.sparse_mla_decode.op import MAX_POOL_BYTES, sparse_mla_decode

DECODE_ROWS = 64
# ahead of the engine's TileLang kernels at 24, 31, 32, 33, 48 and 64 tokens on an H200, level or behind at 9 and 16
MHC_TOKENS = range(24, 65)
HEADS = (16, 32, 64)
PAGES = (layout.SWA_PAGE, layout.C4_PAGE, layout.C128_PAGE)


def refuse_sparse_mla(call: dict[str, Any]) -> str | None:
    q = call["q"]
    if q.dtype != torch.bfloat16 or q.ndim != 4 or q.shape[1] != 1 or q.shape[3] != layout.HEAD_DIM:
        return f"q is {q.dtype} {list(q.shape)}, measured for bf16 [B, 1, H, {layout.HEAD_DIM}]"
    if q.shape[0] > DECODE_ROWS:
        return f"more than {DECODE_ROWS} rows (prefill)"
    if q.shape[2] not in HEADS or real_heads(call) not in HEADS:
        return f"{real_heads(call)} heads in {q.shape[2]}, measured for {HEADS}"
    if call["head_dim_v"] != layout.HEAD_DIM:
        return f"head_dim_v is {call['head_dim_v']}, measured for {layout.HEAD_DIM}"
    caches = [call[name] for name in ("k_cache", "extra_k_cache") if call.get(name) is not None]
    return next((reason for cache in caches if (reason := refuse_cache(cache))), None)


def real_heads(call: dict[str, Any]) -> int:
    """DSpark's draft pads q for another kernel and not its sinks, of which there is one for each head that is real."""
    sink = call.get("attn_sink")
    return int(call["q"].shape[2] if sink is None else sink.numel())


def refuse_cache(cache: torch.Tensor) -> str | None:
    if cache.shape[-1] != layout.ENTRY_BYTES:
        return f"cache entries of {cache.shape[-1]} bytes, measured for {layout.ENTRY_BYTES}"
    if cache.shape[1] not in PAGES:
        return f"pages of {cache.shape[1]} tokens, measured for {PAGES}"
    if cache.shape[0] * cache.stride(0) > MAX_POOL_BYTES:
        return f"a pool of {cache.shape[0] * cache.stride(0)} bytes, offsets reach {MAX_POOL_BYTES}"
    return None


def sparse_mla(call: dict[str, Any], card: Card | None = None) -> tuple[torch.Tensor, None]:
    """flash_mla_with_kvcache_sm120(**kwargs): the engine uses only the first result, and none of its padded heads.

    card: for compiling without one; a running engine's is the one that q lies on.
    """
    q, heads = call["q"], real_heads(call)
    scale = call.get("softmax_scale")
    out = sparse_mla_decode(
        q[:, :, :heads],
        call["k_cache"],
        call["indices"],
        call.get("topk_length"),
        call.get("attn_sink"),
        q.shape[-1] ** -0.5 if scale is None else scale,
        call.get("extra_k_cache"),
        call.get("extra_indices_in_kvcache"),
        call.get("extra_topk_length"),
        card=card,
    )
    if heads == q.shape[2]:
        return out, None
    padded = torch.empty_like(q)
    padded[:, :, :heads] = out
    return padded, None


def refuse_mhc(call: dict[str, Any]) -> str | None:
    residual = call["residual"]
    tokens = residual.numel() // (layout.HC_MULT * layout.HIDDEN)
    if tuple(residual.shape[-2:]) != (layout.HC_MULT, layout.HIDDEN):
        return f"residual is {list(residual.shape)}, measured for [T, {layout.HC_MULT}, {layout.HIDDEN}]"
    if tokens not in MHC_TOKENS:
        return f"{'fewer' if tokens < MHC_TOKENS.start else 'more'} tokens than {MHC_TOKENS.start} to {MHC_TOKENS[-1]}"
    return None


def mhc(
    call: dict[str, Any], symmetric: Callable[[], AbstractContextManager[object]]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """mhc_fused_post_pre. Only the layer input may come from the symmetric pool: scratch there aliased collectives."""
    residual = call["residual"]
    *outer, hc, hidden = residual.shape
    tokens = residual.numel() // (hc * hidden)
    with symmetric():
        layer_input = torch.empty((tokens, hidden), dtype=torch.bfloat16, device=residual.device)
    norm = call["norm_weight"]
    out = mhc_post_pre(
        call["x"].reshape(tokens, hidden),
        residual.reshape(tokens, hc, hidden),
        call["post_layer_mix"].reshape(tokens, hc),
        call["comb_res_mix"].reshape(tokens, hc, hc),
        call["fn"],
        call["hc_scale"],
        call["hc_base"],
        None if norm is None else norm.to(torch.bfloat16).contiguous(),
        rms_eps=call["rms_eps"],
        pre_eps=call["hc_pre_eps"],
        sinkhorn_eps=call["hc_sinkhorn_eps"],
        post_mult=call["hc_post_mult_value"],
        iterations=call["sinkhorn_repeat"],
        norm_eps=call["norm_eps"] or 0.0,
        layer_input=layer_input,
    )
    return (
        out.residual.view(*outer, hc, hidden),
        out.post.view(*outer, hc, 1),
        out.comb.view(*outer, hc, hc),
        out.layer_input.view(*outer, hidden),
    )
