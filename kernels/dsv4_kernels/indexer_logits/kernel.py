"""Indexer logits over a paged FP8 key cache: a persistent grid that shares the real work of all rows."""

from __future__ import annotations

import triton
import triton.language as tl

from dsv4_kernels import layout
from dsv4_kernels.device import let_next_kernel_start

PAGE = tl.constexpr(layout.INDEX_PAGE)
DIM = tl.constexpr(layout.INDEX_DIM)
HEADS = tl.constexpr(layout.INDEX_HEADS)
PAGE_BYTES = tl.constexpr(layout.INDEX_PAGE_BYTES)
PAGE_DATA = tl.constexpr(layout.INDEX_PAGE_DATA)


@triton.jit
def units_of(length, SKIP: tl.constexpr, PAGES: tl.constexpr):
    """Steps that a row of `length` keys needs; none where top-k is the identity."""
    return tl.where(length > SKIP, (length + (PAGE * PAGES - 1)) // (PAGE * PAGES), 0)


@triton.jit
def _total_units(p_length, rows, SKIP: tl.constexpr, PAGES: tl.constexpr, BR: tl.constexpr):
    total = 0
    for start in range(0, rows, BR):
        o_r = start + tl.arange(0, BR)
        total += tl.sum(units_of(tl.load(p_length + o_r, mask=o_r < rows, other=0), SKIP, PAGES), axis=0)
    return total


@triton.jit
def _first_row(p_length, rows, first, SKIP: tl.constexpr, PAGES: tl.constexpr, BR: tl.constexpr):
    """The row that owns unit `first`, and the number of units before that row."""
    row = 0
    before = 0
    seen = 0
    for start in range(0, rows, BR):
        o_r = start + tl.arange(0, BR)
        units = units_of(tl.load(p_length + o_r, mask=o_r < rows, other=0), SKIP, PAGES)
        ends = seen + tl.cumsum(units, axis=0)
        passed = (ends <= first) & (o_r < rows)
        row += tl.sum(passed.to(tl.int32), axis=0)
        before = tl.maximum(before, tl.max(tl.where(passed, ends, 0), axis=0))
        seen += tl.sum(units, axis=0)
    return row, before


@triton.jit
def share_of_work(p_length, rows, SKIP: tl.constexpr, PAGES: tl.constexpr, BR: tl.constexpr, ONE_BLOCK: tl.constexpr):
    """This program's units [first, last), the row of the first one, the units before that row, and how
    many units a program takes.
    """
    program = tl.program_id(0)
    programs = tl.num_programs(0)
    if ONE_BLOCK:  # decode: the lengths are read once
        o_r = tl.arange(0, BR)
        units = units_of(tl.load(p_length + o_r, mask=o_r < rows, other=0), SKIP, PAGES)
        ends = tl.cumsum(units, axis=0)
        total = tl.sum(units, axis=0)
        share = (total + programs - 1) // programs
        passed = (ends <= program * share) & (o_r < rows)
        # both grow along the rows, so one maximum finds both
        found = tl.max(tl.where(passed, ((o_r + 1).to(tl.int64) << 32) | ends.to(tl.int64), 0), axis=0)
        row = (found >> 32).to(tl.int32)
        before = found.to(tl.int32)
    else:
        total = _total_units(p_length, rows, SKIP, PAGES, BR)
        share = (total + programs - 1) // programs
        row, before = _first_row(p_length, rows, program * share, SKIP, PAGES, BR)
    return program * share, tl.minimum(program * share + share, total), row, before, share


@triton.jit
def indexer_logits_kernel(
    p_q, p_key, p_key_scale, p_weight, p_length, p_table, p_out,
    p_zero, zeros, rows, stride_table, stride_out,
    SKIP: tl.constexpr, PAGES: tl.constexpr, BR: tl.constexpr, STAGES: tl.constexpr,
    ONE_BLOCK: tl.constexpr, HAS_ZERO: tl.constexpr,
):  # fmt: skip
    """Grid (programs,). p_key and p_key_scale are e4m3 and fp32 views of one buffer.

    p_zero: words that the next kernel wants to find zero.
    """
    if HAS_ZERO:
        let_next_kernel_start()
        if tl.program_id(0) == 0:
            for start in range(0, zeros, 1024):
                o_z = start + tl.arange(0, 1024)
                tl.store(p_zero + o_z, tl.zeros([1024], tl.int32), mask=o_z < zeros)
    keys: tl.constexpr = PAGE * PAGES
    unit, last, row, before, _ = share_of_work(p_length, rows, SKIP, PAGES, BR, ONE_BLOCK)
    if unit < last:
        o_h = tl.arange(0, HEADS)
        o_d = tl.arange(0, DIM)
        o_k = tl.arange(0, keys)
        while unit < last:
            length = tl.load(p_length + row)
            units = units_of(length, SKIP, PAGES)
            stop = tl.minimum(last, before + units)
            wide_row = row.to(tl.int64)
            query = tl.load(p_q + wide_row * (HEADS * DIM) + o_h[:, None] * DIM + o_d[None, :])
            weight = tl.load(p_weight + wide_row * HEADS + o_h)
            p_row_table = p_table + wide_row * stride_table
            for step in tl.range(unit - before, stop - before, num_stages=STAGES):
                o_n = step * keys + o_k
                # keys past the end share the row's last page: a valid address, and top-k never reads them
                page = tl.load(p_row_table + tl.minimum(o_n, length - 1) // PAGE).to(tl.int64)
                slot = o_k % PAGE
                base = page * PAGE_BYTES + slot * DIM
                key = tl.load(p_key + tl.max_contiguous(base[:, None] + o_d[None, :], [1, 16]))
                key_scale = tl.load(p_key_scale + page * (PAGE_BYTES // 4) + (PAGE_DATA // 4) + slot)
                score = tl.dot(key, tl.trans(query))  # [keys, HEADS]
                score = tl.sum(tl.maximum(score, 0.0) * weight[None, :], axis=1) * key_scale
                valid = o_n < length
                tl.store(p_out + wide_row * stride_out + o_n, score, mask=valid)
            unit = tl.maximum(unit, stop)
            before += units
            row += 1
