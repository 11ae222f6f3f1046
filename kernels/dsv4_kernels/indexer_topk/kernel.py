"""Top-k of the indexer's scores, several blocks to a long row. Scores come from indexer_logits_kernel.

A score is compared as an integer of the same order, so that a bound is found by search whatever the scores are.
"""

from __future__ import annotations

import triton
import triton.language as tl

from dsv4_kernels.device import wait_for_previous_kernel
from dsv4_kernels.indexer_logits.kernel import PAGE

NOTHING = tl.constexpr(-(2**31))  # below every score
SIGN_FLIP = tl.constexpr(0x7FFFFFFF)
LINEAR_STEPS = tl.constexpr(8)
THREADS = tl.constexpr(512)  # 16 warps


@triton.jit
def _ordered(score):
    """fp32 → int32 of the same order. NaNs sort to the ends; the extremes are kept free for bounds."""
    bits = score.to(tl.int32, bitcast=True)
    return tl.minimum(tl.maximum(bits ^ ((bits >> 31) & SIGN_FLIP), NOTHING + 1), SIGN_FLIP - 1)


@triton.jit
def _value(key):
    return (key ^ ((key >> 31) & SIGN_FLIP)).to(tl.float32, bitcast=True)


@triton.jit
def _half(low, high):
    """Rounded down, without overflow."""
    return (low & high) + ((low ^ high) >> 1)


@triton.jit
def _between(low, high, linear):
    """Two bounds in (low, high): thirds by value or, where that does not help, halves by rank among the floats."""
    third = _value(high) * (1.0 / 3.0) - _value(low) * (1.0 / 3.0)
    first = _ordered(_value(low) + third)
    second = _ordered(_value(low) + 2.0 * third)
    linear = linear & (first > low) & (second >= first) & (second < high)
    middle = _half(low, high)
    return tl.where(linear, first, middle), tl.where(linear, second, _half(middle, high))


@triton.jit
def _lower_and_higher(low_a, high_a, low_b, high_b):
    return tl.minimum(low_a, low_b), tl.maximum(high_a, high_b)


@triton.jit
def _threshold(key, count, TOPK: tl.constexpr, LIMIT: tl.constexpr):
    """A bound that TOPK to LIMIT keys reach or, where equal keys make that impossible, the TOPK-th key itself.

    At most `count` keys are valid.
    """
    low, high = tl.reduce((tl.where(key > NOTHING, key, SIGN_FLIP), key), 0, _lower_and_higher)
    high += 1
    reached = count
    steps = 0
    while (reached > LIMIT) & (low + 1 < high):
        first, second = _between(low, high, steps < LINEAR_STEPS)
        # two counts in one sum: a block's reduction costs more than the comparisons
        found = tl.sum((key >= first).to(tl.int32) + ((key >= second).to(tl.int32) << 16))
        if (found >> 16) >= TOPK:
            low = second
            reached = found >> 16
        elif (found & 0xFFFF) >= TOPK:
            low = first
            high = second
            reached = found & 0xFFFF
        else:
            high = first
        steps += 1
    return low


@triton.jit
def _places(key, low, LIMIT: tl.constexpr):
    """Which keys stay, where each goes, and how many: all above `low`, and of those equal to it the first that fit.

    The scan sees the keys as columns, one a thread, and then the sums of the columns: only these cross threads.
    """
    size: tl.constexpr = key.shape[0]
    above = (key > low).to(tl.int32)
    equal = ((key == low) & (key > NOTHING)).to(tl.int32)
    packed = tl.reshape(above + (equal << 16), [size // THREADS, THREADS])
    counts = tl.sum(packed, axis=0)
    total = tl.sum(counts, axis=0)
    ends = tl.reshape(tl.cumsum(packed, axis=0) + (tl.cumsum(counts, axis=0) - counts)[None, :], [size])
    room = LIMIT - (total & 0xFFFF)
    rank = (ends >> 16) - equal
    place = (ends & 0xFFFF) - above + tl.minimum(rank, room)
    return (above > 0) | ((equal > 0) & (rank < room)), place, (total & 0xFFFF) + tl.minimum(total >> 16, room)


@triton.jit
def _keep_best(
    p_key, p_index, p_score, begin, end,
    SIZE: tl.constexpr, TOPK: tl.constexpr, LIMIT: tl.constexpr,
):  # fmt: skip
    """The best TOPK to LIMIT of the scores [begin, end), at most SIZE; the rest of LIMIT is filled with NOTHING."""
    o_c = begin + tl.arange(0, SIZE)
    m_c = o_c < end
    score = tl.load(p_score + o_c, mask=m_c, other=0.0, cache_modifier=".cg")
    key = tl.where(m_c, _ordered(score), NOTHING)
    stays, place, kept = _places(key, _threshold(key, tl.minimum(end - begin, SIZE), TOPK, LIMIT), LIMIT)
    tl.store(p_key + place, key, mask=stays)
    tl.store(p_index + place, o_c, mask=stays)
    o_f = tl.arange(0, TOPK)
    for start in range(kept, LIMIT, TOPK):
        tl.store(p_key + start + o_f, tl.full([TOPK], NOTHING, tl.int32), mask=start + o_f < LIMIT)


@triton.jit
def _keep_best_kept(p_key, p_index, SIZE: tl.constexpr, TOPK: tl.constexpr):
    """Of SIZE candidates the best TOPK, moved to the end."""
    o_c = tl.arange(0, SIZE)
    key = tl.load(p_key + o_c, cache_modifier=".cg")
    index = tl.load(p_index + o_c, mask=key > NOTHING, other=0, cache_modifier=".cg")
    stays, place, kept = _places(key, _threshold(key, SIZE, TOPK, TOPK), TOPK)
    place += SIZE - kept
    tl.debug_barrier()  # all have read before anyone writes
    tl.store(p_key + place, key, mask=stays)
    tl.store(p_index + place, index, mask=stays)
    tl.debug_barrier()


@triton.jit
def _write_best(
    key, index, count, p_table, p_out, p_raw,
    TOPK: tl.constexpr, HAS_RAW: tl.constexpr,
):  # fmt: skip
    """Exactly the best TOPK, by page."""
    stays, place, _ = _places(key, _threshold(key, count, TOPK, TOPK), TOPK)
    page = tl.load(p_table + index // PAGE, mask=stays, other=0)
    tl.store(p_out + place, page * PAGE + index % PAGE, mask=stays)
    if HAS_RAW:
        tl.store(p_raw + place, index, mask=stays)


@triton.jit
def _write_best_scores(
    p_score, p_table, p_out, p_raw, length, SIZE: tl.constexpr, TOPK: tl.constexpr, HAS_RAW: tl.constexpr
):
    o_c = tl.arange(0, SIZE)
    score = tl.load(p_score + o_c, mask=o_c < length, other=0.0, cache_modifier=".cg")
    key = tl.where(o_c < length, _ordered(score), NOTHING)
    _write_best(key, o_c, length, p_table, p_out, p_raw, TOPK, HAS_RAW)


@triton.jit
def _write_best_kept(
    p_key, p_index, p_table, p_out, p_raw, count, SIZE: tl.constexpr, TOPK: tl.constexpr, HAS_RAW: tl.constexpr
):
    o_c = tl.arange(0, SIZE)
    key = tl.load(p_key + o_c, mask=o_c < count, other=NOTHING, cache_modifier=".cg")
    index = tl.load(p_index + o_c, mask=key > NOTHING, other=0, cache_modifier=".cg")
    _write_best(key, index, count, p_table, p_out, p_raw, TOPK, HAS_RAW)


@triton.jit
def _write_identity(p_table, p_out, p_raw, length, TOPK: tl.constexpr, HAS_RAW: tl.constexpr):
    o_i = tl.arange(0, TOPK)
    page = tl.load(p_table + o_i // PAGE, mask=o_i < length, other=0)
    tl.store(p_out + o_i, tl.where(o_i < length, page * PAGE + o_i % PAGE, -1))
    if HAS_RAW:
        tl.store(p_raw + o_i, tl.where(o_i < length, o_i, -1))


@triton.jit
def _share_long_row(
    p_key, p_index, p_arrived, p_score, p_table, p_out, p_raw, length, part, parts,
    TOPK: tl.constexpr, SLOT: tl.constexpr, SMALL: tl.constexpr, SIZE: tl.constexpr, HAS_RAW: tl.constexpr,
):  # fmt: skip
    """Each part keeps the best of every parts-th piece; the last to arrive takes the best of what all kept."""
    pieces = (length + SIZE - 1) // SIZE
    used = tl.minimum(parts, pieces)
    if part < used:
        for piece in range(part, pieces, parts):
            own = piece * SLOT
            _keep_best(p_key + own, p_index + own, p_score, piece * SIZE, length, SIZE, TOPK, SLOT)
        tl.debug_barrier()
        if tl.atomic_add(p_arrived, 1, sem="acq_rel") == used - 1:
            tl.debug_barrier()
            first = 0
            count = pieces * SLOT
            while count > SIZE:
                _keep_best_kept(p_key + first, p_index + first, SIZE, TOPK)
                first += SIZE - TOPK
                count -= SIZE - TOPK
            p_key += first
            p_index += first
            if count <= SMALL:
                _write_best_kept(p_key, p_index, p_table, p_out, p_raw, count, SMALL, TOPK, HAS_RAW)
            else:
                _write_best_kept(p_key, p_index, p_table, p_out, p_raw, count, SIZE, TOPK, HAS_RAW)


# strides are not specialised: were rows known to be aligned, a thread would load four keys side by side, and every
# scattered store would first exchange keys, places and addresses between threads
@triton.jit(do_not_specialize=("parts", "stride_score", "stride_cand"))
def topk_kernel(
    p_score, p_length, p_table, p_out, p_raw, p_cand_key, p_cand_index, p_arrived,
    parts, stride_score, stride_table, stride_cand,
    TOPK: tl.constexpr, SLOT: tl.constexpr, SMALL: tl.constexpr, SIZE: tl.constexpr, HAS_RAW: tl.constexpr,
):  # fmt: skip
    """Grid (rows, parts). One block takes a row of up to SIZE scores; a longer one is shared.

    p_arrived: a zero for each row.
    """
    row = tl.program_id(0)
    part = tl.program_id(1)
    wide_row = row.to(tl.int64)
    length = tl.load(p_length + row)
    p_row_score = p_score + wide_row * stride_score
    p_row_table = p_table + wide_row * stride_table
    p_row_out = p_out + wide_row * TOPK
    p_row_raw = p_raw + wide_row * TOPK
    if length <= TOPK:
        if part == 0:
            _write_identity(p_row_table, p_row_out, p_row_raw, length, TOPK, HAS_RAW)
    else:
        wait_for_previous_kernel()
        if length > SIZE:
            _share_long_row(
                p_cand_key + wide_row * stride_cand, p_cand_index + wide_row * stride_cand, p_arrived + row,
                p_row_score, p_row_table, p_row_out, p_row_raw, length, part, parts,
                TOPK, SLOT, SMALL, SIZE, HAS_RAW,
            )  # fmt: skip
        elif part == 0:
            if length <= SMALL:
                _write_best_scores(p_row_score, p_row_table, p_row_out, p_row_raw, length, SMALL, TOPK, HAS_RAW)
            else:
                _write_best_scores(p_row_score, p_row_table, p_row_out, p_row_raw, length, SIZE, TOPK, HAS_RAW)
