"""Sparse MLA over two paged FP8 caches in one launch, and the combine of its splits.

All heads of a block share each key that is read: [BH, 512] x [512, BN] and [BH, BN] x [BN, 512] on tensor cores. The
512 dimensions are seen as 8 chunks of 64, seven e4m3 groups with a UE8M0 scale each and the bf16 rope chunk, and kept
as two halves of 256, which gives the scores two independent chains of products. Keys are dequantised exactly (a power
of two times e4m3 is a bf16) in registers and stored once in shared memory for both products.
"""

from __future__ import annotations

import triton
import triton.language as tl

from dsv4_kernels import layout
from dsv4_kernels.device import (
    dequantise,
    dequantise_or,
    dot_bf16,
    let_next_kernel_start,
    wait_for_previous_kernel,
)

DIM = tl.constexpr(layout.HEAD_DIM)
CHUNK = tl.constexpr(layout.SCALE_GROUP)
HALF = tl.constexpr(layout.HEAD_DIM // 2)
HALF_CHUNKS = tl.constexpr(layout.HEAD_DIM // 2 // layout.SCALE_GROUP)
NOPE_CHUNKS = tl.constexpr(layout.SCALE_GROUPS)
NOPE_BYTES = tl.constexpr(layout.NOPE_DIM)  # e4m3: a byte a dimension
TOKEN_BYTES = tl.constexpr(layout.TOKEN_BYTES)
SCALE_BYTES = tl.constexpr(layout.TOKEN_SCALE_BYTES)
LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def _tile_count(p_length, row, width, HAS_LENGTH: tl.constexpr, BN: tl.constexpr):
    length = width
    if HAS_LENGTH:
        length = tl.maximum(tl.minimum(tl.load(p_length + row), width), 0)
    return length, (length + BN - 1) // BN


@triton.jit
def _load_tokens(p_index, tile, length, BN: tl.constexpr):
    o_n = tile * BN + tl.arange(0, BN)
    return tl.load(p_index + o_n, mask=o_n < length, other=-1)


@triton.jit
def _locate(p_cache, token, page_units, PAGE: tl.constexpr):
    """Pointers [BN] to the tokens' bytes and to their packed scales."""
    page = token // PAGE
    slot = token % PAGE
    # offsets in units of 16 and of 8 bytes stay in 32 bits for pools up to 16 GiB: half the address arithmetic
    p_token = p_cache + (page * page_units + slot * (TOKEN_BYTES // 16)).to(tl.int64) * 16
    p_scale = (
        p_cache + (page * (page_units * 2) + (slot + PAGE * (TOKEN_BYTES // SCALE_BYTES))).to(tl.int64) * SCALE_BYTES
    )
    return p_token, p_scale.to(tl.pointer_type(tl.int32))


@triton.jit
def _load_raw(p_cache, token, page_units, PAGE: tl.constexpr):
    """Bytes of both halves [4, BN, 64], rope bf16 [BN, 64], 4 scales a word [BN]; a negative token reads nothing."""
    valid = token >= 0
    p_token, p_scale = _locate(p_cache, tl.maximum(token, 0), page_units, PAGE)
    o_c = tl.arange(0, HALF_CHUNKS)
    o_d = tl.arange(0, CHUNK)
    p_low = p_token[None, :, None] + o_c[:, None, None] * CHUNK + o_d[None, None, :]
    low = tl.load(p_low, mask=valid[None, :, None], other=0)
    high = tl.load(p_low + HALF, mask=(o_c < NOPE_CHUNKS - HALF_CHUNKS)[:, None, None] & valid[None, :, None], other=0)
    p_rope = (p_token + NOPE_BYTES).to(tl.pointer_type(tl.bfloat16))
    rope = tl.load(p_rope[:, None] + o_d[None, :], mask=valid[:, None], other=0.0)
    low_scale = tl.load(p_scale, mask=valid, other=0)
    high_scale = tl.load(p_scale + 1, mask=valid, other=0)
    return low, high, rope, low_scale, high_scale


@triton.jit
def _dequantise(nope, rope, packed, ALL_FP8: tl.constexpr, BN: tl.constexpr):
    """Half of the keys, bf16 [BN, 256]."""
    o_c = tl.arange(0, HALF_CHUNKS)
    byte = ((packed[None, :] >> (o_c * 8)[:, None]) & 0xFF).to(tl.int16)
    # 2^(byte - 127) as bf16; byte 0 is the subnormal 2^-127, which the exponent field alone cannot say
    scale = tl.where(byte == 0, 0x0040, byte << 7).to(tl.int16).to(tl.bfloat16, bitcast=True)[:, :, None]
    if ALL_FP8:
        key = dequantise(nope, scale)
    else:
        key = dequantise_or(nope, scale, (o_c < HALF_CHUNKS - 1)[:, None, None], rope[None, :, :])
    return tl.reshape(tl.trans(key, 1, 0, 2), [BN, HALF])


@triton.jit
def _attend(
    q_low, q_high, top, total, acc_low, acc_high,  # [BH, 256] x 2, [BH], [BH, BN], [BH, 256] x 2
    p_cache, p_index, first, last, length, page_units, scale_log2,
    PAGE: tl.constexpr, BH: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Online softmax over the tiles [first, last) of one scope.

    The next tile's bytes are on their way while this one is multiplied, its token ids a tile earlier. Keys cross the
    loop edge dequantised: were the products to see the byte loads, the compiler would choose operand layouts for 8-bit
    elements, which cost a register move for each one. The sums stay per column until the end: one reduction less.
    """
    if first < last:
        token = _load_tokens(p_index, first, length, BN)
        low, high, rope, low_scale, high_scale = _load_raw(p_cache, token, page_units, PAGE)
        next_token = _load_tokens(p_index, first + 1, tl.where(first + 1 < last, length, 0), BN)
        key_low = _dequantise(low, rope, low_scale, True, BN)
        key_high = _dequantise(high, rope, high_scale, False, BN)
        for tile in range(first, last):
            valid = token >= 0
            token = next_token
            low, high, rope, low_scale, high_scale = _load_raw(p_cache, token, page_units, PAGE)
            next_token = _load_tokens(p_index, tile + 2, tl.where(tile + 2 < last, length, 0), BN)
            score = dot_bf16(q_low, tl.trans(key_low), tl.zeros([BH, BN], tl.float32))
            score += dot_bf16(q_high, tl.trans(key_high), tl.zeros([BH, BN], tl.float32))
            score = tl.where(valid[None, :], score * scale_log2, float("-inf"))
            new_top = tl.maximum(top, tl.max(score, axis=1))
            shift = tl.where(new_top == float("-inf"), 0.0, new_top)  # no valid key yet: no exp2(inf - inf)
            keep = tl.exp2(top - shift)
            weight = tl.exp2(score - shift[:, None])
            total = total * keep[:, None] + weight
            weight = weight.to(tl.bfloat16)
            acc_low = dot_bf16(weight, key_low, acc_low * keep[:, None])
            acc_high = dot_bf16(weight, key_high, acc_high * keep[:, None])
            top = new_top
            key_low = _dequantise(low, rope, low_scale, True, BN)
            key_high = _dequantise(high, rope, high_scale, False, BN)
    return top, total, acc_low, acc_high


RUNTIME = ("main_width", "extra_width", "splits")  # no variant per value: they change with batch and max context


@triton.jit(do_not_specialize=RUNTIME)
def sparse_mla_split_kernel(
    p_q, p_main, p_main_index, p_main_length, p_extra, p_extra_index, p_extra_length, p_sink,
    p_out, p_part, p_lse,
    scale_log2, main_page_units, extra_page_units, stride_qb, stride_qh, main_width, extra_width, splits,
    H: tl.constexpr, BH: tl.constexpr, BN: tl.constexpr, SINGLE: tl.constexpr,
    MAIN_PAGE: tl.constexpr, HAS_MAIN_LENGTH: tl.constexpr,
    HAS_EXTRA: tl.constexpr, EXTRA_PAGE: tl.constexpr, HAS_EXTRA_LENGTH: tl.constexpr,
    HAS_SINK: tl.constexpr,
):  # fmt: skip
    """Grid (B * H / BH, splits). Splits share the tiles that the row's lengths really need."""
    if not SINGLE:
        let_next_kernel_start()
    blocks: tl.constexpr = H // BH
    row = tl.program_id(0) // blocks
    o_h = tl.program_id(0) % blocks * BH + tl.arange(0, BH)
    split = tl.program_id(1)
    main_length, main_tiles = _tile_count(p_main_length, row, main_width, HAS_MAIN_LENGTH, BN)
    tiles = main_tiles
    if HAS_EXTRA:
        extra_length, extra_tiles = _tile_count(p_extra_length, row, extra_width, HAS_EXTRA_LENGTH, BN)
        tiles += extra_tiles
    share = tl.maximum((tiles + splits - 1) // splits, 1)
    first = split * share
    last = tl.minimum(first + share, tiles)
    if first < tl.maximum(tiles, 1):  # split 0 always runs: it writes the zeros of a row without keys
        wide_row = row.to(tl.int64)
        o_d = o_h[:, None] * DIM + tl.arange(0, HALF)[None, :]
        p_q_low = p_q + wide_row * stride_qb + o_h[:, None] * stride_qh + tl.arange(0, HALF)[None, :]
        q_low = tl.load(p_q_low)
        q_high = tl.load(p_q_low + HALF)
        top = tl.full([BH], float("-inf"), tl.float32)
        sums = tl.zeros([BH, BN], tl.float32)
        acc_low = tl.zeros([BH, HALF], tl.float32)
        acc_high = tl.zeros([BH, HALF], tl.float32)
        top, sums, acc_low, acc_high = _attend(
            q_low, q_high, top, sums, acc_low, acc_high, p_main, p_main_index + wide_row * main_width,
            first, tl.minimum(last, main_tiles), main_length, main_page_units, scale_log2, MAIN_PAGE, BH, BN,
        )  # fmt: skip
        if HAS_EXTRA:
            top, sums, acc_low, acc_high = _attend(
                q_low, q_high, top, sums, acc_low, acc_high, p_extra, p_extra_index + wide_row * extra_width,
                tl.maximum(first - main_tiles, 0), last - main_tiles, extra_length, extra_page_units,
                scale_log2, EXTRA_PAGE, BH, BN,
            )  # fmt: skip
        total = tl.sum(sums, axis=1)
        if SINGLE:
            factor = 1.0
            if HAS_SINK:
                sink = tl.load(p_sink + o_h) * LOG2E
                high = tl.maximum(top, sink)
                high = tl.where(high == float("-inf"), 0.0, high)
                # acc and total are relative to top; the sink may be far above it
                factor = tl.exp2(top - high)
                total = total * factor + tl.exp2(sink - high)
            factor = (factor / tl.where(total > 0.0, total, 1.0))[:, None]
            tl.store(p_out + wide_row * (H * DIM) + o_d, (acc_low * factor).to(tl.bfloat16))
            tl.store(p_out + wide_row * (H * DIM) + HALF + o_d, (acc_high * factor).to(tl.bfloat16))
        else:
            factor = (1.0 / tl.where(total > 0.0, total, 1.0))[:, None]
            p_cell = p_part + (wide_row * splits + split) * (H * DIM) + o_d
            tl.store(p_cell, (acc_low * factor).to(p_part.dtype.element_ty))
            tl.store(p_cell + HALF, (acc_high * factor).to(p_part.dtype.element_ty))
            lse = tl.where(total > 0.0, top + tl.log2(total), float("-inf"))
            tl.store(p_lse + (wide_row * splits + split) * H + o_h, lse)


@triton.jit(do_not_specialize=RUNTIME)
def sparse_mla_combine_kernel(
    p_main_length, p_extra_length, p_sink, p_part, p_lse, p_out, main_width, extra_width, splits,
    H: tl.constexpr, SPLITS_POW2: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr, BS: tl.constexpr,
    HAS_MAIN_LENGTH: tl.constexpr, HAS_EXTRA: tl.constexpr, HAS_EXTRA_LENGTH: tl.constexpr, HAS_SINK: tl.constexpr,
):  # fmt: skip
    """Grid (B * H, 512 / BD): one head's BD dimensions, over the splits that had work."""
    row = tl.program_id(0) // H
    head = tl.program_id(0) % H
    o_d = tl.program_id(1) * BD + tl.arange(0, BD)
    _, tiles = _tile_count(p_main_length, row, main_width, HAS_MAIN_LENGTH, BN)
    if HAS_EXTRA:
        _, extra_tiles = _tile_count(p_extra_length, row, extra_width, HAS_EXTRA_LENGTH, BN)
        tiles += extra_tiles
    share = tl.maximum((tiles + splits - 1) // splits, 1)
    used = tl.maximum((tiles + share - 1) // share, 1)
    o_s = tl.arange(0, SPLITS_POW2)
    wait_for_previous_kernel()
    base = row.to(tl.int64) * splits * H + head
    lse = tl.load(p_lse + base + o_s * H, mask=o_s < used, other=float("-inf"))
    high = tl.max(lse, axis=0)
    if HAS_SINK:
        sink = tl.load(p_sink + head) * LOG2E
        high = tl.maximum(high, sink)
    high = tl.where(high == float("-inf"), 0.0, high)
    total = tl.sum(tl.exp2(lse - high), axis=0)
    if HAS_SINK:
        total += tl.exp2(sink - high)
    acc = tl.zeros([BD], tl.float32)
    for start in range(0, used, BS):
        o_b = start + tl.arange(0, BS)
        m_b = o_b < used
        weight = tl.exp2(tl.load(p_lse + base + o_b * H, mask=m_b, other=float("-inf")) - high)
        part = tl.load(p_part + (base + o_b * H)[:, None] * DIM + o_d[None, :], mask=m_b[:, None], other=0.0)
        acc += tl.sum(part.to(tl.float32) * weight[:, None], axis=0)
    out = acc / tl.where(total > 0.0, total, 1.0)
    tl.store(p_out + tl.program_id(0).to(tl.int64) * DIM + o_d, out.to(tl.bfloat16))
