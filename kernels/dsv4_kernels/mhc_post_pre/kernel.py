"""Hyper-connection post and pre across one sublayer boundary, split over the hidden dimension.

Kernel 1 updates the four residual streams and, while they are in registers, multiplies them by the 24 mixing
rows; each program owns 16 tokens and a slice of the hidden dimension, so 64 tokens fill the card instead of
two CTAs. Kernel 2 adds the slices in a fixed order, so results do not depend on timing.
"""

from __future__ import annotations

import triton
import triton.language as tl

from dsv4_kernels import layout
from dsv4_kernels.device import dot_bf16, let_next_kernel_start, wait_for_previous_kernel

HC = tl.constexpr(layout.HC_MULT)
MIXES = tl.constexpr(layout.HC_MIXES)
MIXES_POW2 = tl.constexpr(32)


@triton.jit
def mhc_mix_kernel(
    p_x, p_residual, p_post, p_comb, p_fn, p_new, p_mix, p_square,
    tokens,
    HIDDEN: tl.constexpr, SLICE: tl.constexpr, BT: tl.constexpr, BG: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Grid (HIDDEN / SLICE, ceil(tokens / BT)). Mixes fp32 [splits, tokens, 32], squares fp32 [splits, tokens].

    A step is BG groups of BK columns, batched in the products: one warp a group, so no warp repeats another's
    residual arithmetic, as it would if the warps shared the 24 mixing rows between them.
    """
    let_next_kernel_start()
    split = tl.program_id(0)
    o_t = tl.program_id(1) * BT + tl.arange(0, BT)
    m_t = o_t < tokens
    m_load = m_t[None, :, None]
    o_m = tl.arange(0, MIXES_POW2)
    o_g = tl.arange(0, BG)
    mix = tl.zeros([BG, BT, MIXES_POW2], tl.float32)
    square = tl.zeros([BG, BT, BK], tl.float32)
    for step in range(SLICE // (BG * BK)):
        o_k = split * SLICE + step * (BG * BK) + o_g[:, None, None] * BK + tl.arange(0, BK)[None, None, :]
        x = tl.load(p_x + (o_t * HIDDEN)[None, :, None] + o_k, mask=m_load, other=0.0).to(tl.float32)
        p_old = p_residual + (o_t * (HC * HIDDEN))[None, :, None] + o_k
        old_0 = tl.load(p_old, mask=m_load, other=0.0).to(tl.float32)
        old_1 = tl.load(p_old + HIDDEN, mask=m_load, other=0.0).to(tl.float32)
        old_2 = tl.load(p_old + 2 * HIDDEN, mask=m_load, other=0.0).to(tl.float32)
        old_3 = tl.load(p_old + 3 * HIDDEN, mask=m_load, other=0.0).to(tl.float32)
        for i in tl.static_range(HC):
            p_c = p_comb + o_t * (HC * HC) + i
            post = tl.load(p_post + o_t * HC + i, mask=m_t, other=0.0)[None, :, None]
            comb_0 = tl.load(p_c, mask=m_t, other=0.0)[None, :, None]
            comb_1 = tl.load(p_c + HC, mask=m_t, other=0.0)[None, :, None]
            comb_2 = tl.load(p_c + 2 * HC, mask=m_t, other=0.0)[None, :, None]
            comb_3 = tl.load(p_c + 3 * HC, mask=m_t, other=0.0)[None, :, None]
            new = post * x + comb_0 * old_0 + comb_1 * old_1 + comb_2 * old_2 + comb_3 * old_3
            stored = new.to(tl.bfloat16)  # the engine's GEMM and mean square both read the rounded value
            tl.store(p_new + (o_t * (HC * HIDDEN))[None, :, None] + i * HIDDEN + o_k, stored, mask=m_load)
            rounded = stored.to(tl.float32)
            square += rounded * rounded
            # streams are exactly bf16, so weights split into two bf16 parts give ~2^-17, near fp32, in two passes
            p_f = p_fn + (o_m * (HC * HIDDEN))[None, :, None] + i * HIDDEN + o_k
            fn = tl.load(p_f, mask=(o_m < MIXES)[None, :, None], other=0.0)
            high = fn.to(tl.bfloat16)
            low = (fn - high.to(tl.float32)).to(tl.bfloat16)
            mix = dot_bf16(stored, tl.trans(high, 0, 2, 1), mix)
            mix = dot_bf16(stored, tl.trans(low, 0, 2, 1), mix)
    cell = split * tokens + o_t
    tl.store(p_mix + cell[:, None] * MIXES_POW2 + o_m[None, :], tl.sum(mix, axis=0), mask=m_t[:, None])
    tl.store(p_square + cell, tl.sum(tl.sum(square, axis=2), axis=0), mask=m_t)


@triton.jit
def _rms(p_square, token, tokens, rms_eps, HIDDEN: tl.constexpr, SPLITS: tl.constexpr):
    o_s = tl.arange(0, SPLITS)
    total = tl.sum(tl.load(p_square + o_s * tokens + token), axis=0)
    return tl.rsqrt(total / (HC * HIDDEN) + rms_eps)


@triton.jit
def _mix_sum(p_mix, token, tokens, first, COUNT: tl.constexpr, SPLITS: tl.constexpr):
    """Mixes [first, first + COUNT) of one token, added over the splits in a fixed tree."""
    o_s = tl.arange(0, SPLITS)
    o_m = first + tl.arange(0, COUNT)
    return tl.sum(tl.load(p_mix + (o_s * tokens + token)[:, None] * MIXES_POW2 + o_m[None, :]), axis=0)


@triton.jit
def _pre(p_mix, p_scale, p_base, token, tokens, rms, pre_eps, INDEX: tl.constexpr, SPLITS: tl.constexpr):
    o_s = tl.arange(0, SPLITS)
    mix = tl.sum(tl.load(p_mix + (o_s * tokens + token) * MIXES_POW2 + INDEX), axis=0)
    return tl.sigmoid(mix * rms * tl.load(p_scale) + tl.load(p_base + INDEX)) + pre_eps


@triton.jit
def _write_mixes(
    p_mix, p_scale, p_base, p_post, p_comb, token, tokens, rms, sinkhorn_eps, post_mult,
    ITERATIONS: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    o_i = tl.arange(0, HC)
    post = _mix_sum(p_mix, token, tokens, HC, HC, SPLITS) * rms
    post = tl.sigmoid(post * tl.load(p_scale + 1) + tl.load(p_base + HC + o_i)) * post_mult
    tl.store(p_post + token * HC + o_i, post)
    o_c = tl.arange(0, HC * HC)
    comb = _mix_sum(p_mix, token, tokens, 2 * HC, HC * HC, SPLITS) * rms
    comb = tl.reshape(comb * tl.load(p_scale + 2) + tl.load(p_base + 2 * HC + o_c), [HC, HC])
    comb = tl.exp(comb - tl.max(comb, axis=1)[:, None])
    comb = comb / tl.sum(comb, axis=1)[:, None] + sinkhorn_eps
    comb = comb / (tl.sum(comb, axis=0)[None, :] + sinkhorn_eps)
    for _ in range(ITERATIONS - 1):
        comb = comb / (tl.sum(comb, axis=1)[:, None] + sinkhorn_eps)
        comb = comb / (tl.sum(comb, axis=0)[None, :] + sinkhorn_eps)
    tl.store(p_comb + token * (HC * HC) + o_i[:, None] * HC + o_i[None, :], comb)


@triton.jit
def _write_layer_input(
    p_new, p_mix, p_scale, p_base, p_norm, p_out, token, tokens, rms, pre_eps, norm_eps,
    HIDDEN: tl.constexpr, HAS_NORM: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    o_k = tl.arange(0, HIDDEN)
    p_row = p_new + token * (HC * HIDDEN) + o_k
    new_0 = tl.load(p_row)  # all four streams are in flight before the mixes are summed
    new_1 = tl.load(p_row + HIDDEN)
    new_2 = tl.load(p_row + 2 * HIDDEN)
    new_3 = tl.load(p_row + 3 * HIDDEN)
    out = _pre(p_mix, p_scale, p_base, token, tokens, rms, pre_eps, 0, SPLITS) * new_0.to(tl.float32)
    out += _pre(p_mix, p_scale, p_base, token, tokens, rms, pre_eps, 1, SPLITS) * new_1.to(tl.float32)
    out += _pre(p_mix, p_scale, p_base, token, tokens, rms, pre_eps, 2, SPLITS) * new_2.to(tl.float32)
    out += _pre(p_mix, p_scale, p_base, token, tokens, rms, pre_eps, 3, SPLITS) * new_3.to(tl.float32)
    if HAS_NORM:
        norm = tl.rsqrt(tl.sum(out * out, axis=0) / HIDDEN + norm_eps)
        # the engine normalises the bf16-rounded sum with the norm of the unrounded one
        out = out.to(tl.bfloat16).to(tl.float32) * norm * tl.load(p_norm + o_k).to(tl.float32)
    tl.store(p_out + token * HIDDEN + o_k, out.to(tl.bfloat16))


@triton.jit
def mhc_finish_kernel(
    p_new, p_mix, p_square, p_scale, p_base, p_norm, p_post, p_comb, p_out,
    tokens, rms_eps, pre_eps, sinkhorn_eps, post_mult, norm_eps,
    HIDDEN: tl.constexpr, SPLITS: tl.constexpr, ITERATIONS: tl.constexpr, HAS_NORM: tl.constexpr,
):  # fmt: skip
    """Grid (tokens, 2): the layer input, and beside it the 20 serial Sinkhorn steps that it does not need."""
    token = tl.program_id(0)
    wait_for_previous_kernel()
    rms = _rms(p_square, token, tokens, rms_eps, HIDDEN, SPLITS)
    if tl.program_id(1) == 0:
        _write_layer_input(
            p_new, p_mix, p_scale, p_base, p_norm, p_out, token, tokens, rms, pre_eps, norm_eps,
            HIDDEN, HAS_NORM, SPLITS,
        )  # fmt: skip
    else:
        _write_mixes(
            p_mix, p_scale, p_base, p_post, p_comb, token, tokens, rms, sinkhorn_eps, post_mult, ITERATIONS, SPLITS
        )
