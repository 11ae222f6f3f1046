"""Sparse MLA against its float64 reference: every page size, hostile indices and lengths, poisoned outputs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from dsv4_kernels import layout, testing
from dsv4_kernels.cards import CARDS, H200, TARGET, Card
from dsv4_kernels.sparse_mla_decode.op import sparse_mla_decode
from dsv4_kernels.sparse_mla_decode.reference import Scope, sparse_mla_reference
from dsv4_kernels.sparse_mla_decode.tiling import Tiling, choose_tiling
from dsv4_kernels.testing import SparseMlaInputs, relative_error


def run(inputs: SparseMlaInputs, splits: int | None = None) -> torch.Tensor:
    tiling = None if splits is None else Tiling(16, 16, 4, splits)
    out = torch.full(inputs.q.shape, float("nan"), dtype=torch.bfloat16, device=inputs.q.device)
    return sparse_mla_decode(
        inputs.q,
        inputs.k_cache,
        inputs.indices,
        inputs.topk_length,
        inputs.attn_sink,
        inputs.softmax_scale,
        inputs.extra_k_cache,
        inputs.extra_indices,
        inputs.extra_topk_length,
        tiling=tiling,
        out=out,
    )


def reference(inputs: SparseMlaInputs) -> torch.Tensor:
    extra = None
    if inputs.extra_k_cache is not None and inputs.extra_indices is not None:
        extra = Scope(inputs.extra_k_cache, inputs.extra_indices, inputs.extra_topk_length)
    main = Scope(inputs.k_cache, inputs.indices, inputs.topk_length)
    return sparse_mla_reference(inputs.q, main, extra, inputs.attn_sink, inputs.softmax_scale)


def small(
    generator: torch.Generator, batch: int = 2, main: int = 32, extra: int = 48, **kwargs: int
) -> SparseMlaInputs:
    return testing.sparse_mla_inputs(batch, 16, main, extra, generator, **kwargs)


@pytest.mark.parametrize("keys", [32, 64])
def test_both_tiles(tolerance: float, generator: torch.Generator, keys: int) -> None:
    inputs = small(generator, main=40, extra=70)
    args = inputs.q, inputs.k_cache, inputs.indices, inputs.topk_length, inputs.attn_sink, inputs.softmax_scale
    extra = inputs.extra_k_cache, inputs.extra_indices, inputs.extra_topk_length
    for splits in (1, 2):
        out = sparse_mla_decode(*args, *extra, tiling=Tiling(16, keys, 4, splits))
        assert relative_error(out, reference(inputs)) < tolerance


@pytest.mark.parametrize("splits", [1, 3, 5])
@pytest.mark.parametrize(("extra", "extra_page"), [(0, 64), (48, layout.C4_PAGE), (40, layout.C128_PAGE)])
def test_caches_and_splits(
    tolerance: float, generator: torch.Generator, splits: int, extra: int, extra_page: int
) -> None:
    inputs = small(generator, extra=extra, extra_page=extra_page)
    assert relative_error(run(inputs, splits), reference(inputs)) < tolerance


def test_more_heads_than_a_block(tolerance: float, generator: torch.Generator) -> None:
    inputs = testing.sparse_mla_inputs(1, 64, 16, 16, generator)
    assert relative_error(run(inputs), reference(inputs)) < tolerance


def test_swa_pages_of_64(tolerance: float, generator: torch.Generator) -> None:
    inputs = small(generator, main_page=64)
    assert relative_error(run(inputs), reference(inputs)) < tolerance


@pytest.mark.parametrize("splits", [1, 4])
def test_holes_and_entries_past_the_length_are_ignored(
    tolerance: float, generator: torch.Generator, splits: int
) -> None:
    inputs = small(generator)
    inputs.indices[0, 0, 5:9] = -1
    inputs.indices[1, 0, 0] = -1
    assert inputs.extra_indices is not None
    inputs.extra_indices[0, 0, ::3] = -1
    device = inputs.q.device
    # the indices past these lengths stay >= 0
    lengths = (
        torch.tensor([17, 1], dtype=torch.int32, device=device),
        torch.tensor([48, 33], dtype=torch.int32, device=device),
    )
    inputs = replace(inputs, topk_length=lengths[0], extra_topk_length=lengths[1])
    assert relative_error(run(inputs, splits), reference(inputs)) < tolerance


@pytest.mark.parametrize("splits", [1, 4])
@pytest.mark.parametrize("sink", [True, False])
def test_row_without_a_valid_key_is_zero(tolerance: float, generator: torch.Generator, splits: int, sink: bool) -> None:
    inputs = small(generator)
    inputs.indices[0] = -1
    assert inputs.extra_indices is not None
    inputs.extra_indices[0] = -1
    inputs = replace(inputs, attn_sink=inputs.attn_sink if sink else None)
    out = run(inputs, splits)
    assert torch.equal(out[0], torch.zeros_like(out[0]))
    assert relative_error(out, reference(inputs)) < tolerance


@pytest.mark.parametrize("splits", [1, 4])
def test_lengths_of_zero_are_zero(generator: torch.Generator, splits: int) -> None:
    inputs = small(generator)
    none = torch.zeros(2, dtype=torch.int32, device=inputs.q.device)
    out = run(replace(inputs, topk_length=none, extra_topk_length=none), splits)
    assert torch.equal(out, torch.zeros_like(out))


def test_padding_rows_of_a_graph_bucket(tolerance: float, generator: torch.Generator) -> None:
    inputs = small(generator)
    inputs.indices[1] = -1
    inputs.indices[1, 0, 0] = 0
    assert inputs.extra_indices is not None
    assert inputs.topk_length is not None
    assert inputs.extra_topk_length is not None
    inputs.extra_indices[1] = -1
    inputs.topk_length[1] = 1
    inputs.extra_topk_length[1] = 1
    assert relative_error(run(inputs, 4), reference(inputs)) < tolerance


@pytest.mark.parametrize("splits", [1, 4])
@pytest.mark.parametrize("sink", [-1e4, -30.0, 30.0, 1e4, float("-inf")])
def test_extreme_sinks(tolerance: float, generator: torch.Generator, splits: int, sink: float) -> None:
    inputs = small(generator)
    assert inputs.attn_sink is not None
    inputs.attn_sink.fill_(sink)
    out = run(inputs, splits)
    assert relative_error(out, reference(inputs)) < tolerance or (sink == 1e4 and out.abs().max() == 0)


@pytest.mark.parametrize("scale_bytes", [(0, 4), (1, 90), (127, 134), (140, 150)])
def test_extreme_scales(tolerance: float, generator: torch.Generator, scale_bytes: tuple[int, int]) -> None:
    inputs = small(generator)
    cache = testing.attention_cache(4, layout.SWA_PAGE, generator, scale_bytes)
    inputs = replace(inputs, k_cache=cache, softmax_scale=1e-6 if scale_bytes[0] > 100 else inputs.softmax_scale)
    assert relative_error(run(inputs, 2), reference(inputs)) < tolerance


def test_every_e4m3_code_is_read_exactly(generator: torch.Generator) -> None:
    """One key with weight 1 makes the output the key itself."""
    inputs = testing.sparse_mla_inputs(1, 16, 16, 0, generator)
    codes = torch.tensor([c for c in range(256) if c not in (0x7F, 0xFF)], dtype=torch.uint8)
    raw = inputs.k_cache.as_strided((inputs.k_cache.stride(0),), (1,))
    raw[: codes.numel()] = codes.to(raw.device)
    inputs.indices[:] = -1
    inputs.indices[0, 0, 3] = 0
    inputs = replace(inputs, attn_sink=None)
    assert torch.equal(run(inputs, 1).double(), reference(inputs))


def test_wider_page_stride(tolerance: float, generator: torch.Generator) -> None:
    inputs = small(generator)
    cache = testing.attention_cache(4, layout.SWA_PAGE, generator, stride=149_760 + 576)
    inputs = replace(inputs, k_cache=cache)
    assert relative_error(run(inputs), reference(inputs)) < tolerance


def test_strided_query(tolerance: float, generator: torch.Generator) -> None:
    inputs = small(generator)
    wide = torch.zeros((2, 1, 24, 512), dtype=torch.bfloat16, device=inputs.q.device)
    wide[:, :, :16] = inputs.q
    inputs = replace(inputs, q=wide[:, :, :16])
    assert relative_error(run(inputs), reference(inputs)) < tolerance


def test_no_rows(generator: torch.Generator) -> None:
    inputs = small(generator, batch=1)
    assert sparse_mla_decode(inputs.q[:0], inputs.k_cache, inputs.indices[:0], None, None, 1.0).shape == (0, 1, 16, 512)


def test_a_wrong_layout_is_refused_with_both_numbers(generator: torch.Generator) -> None:
    inputs = small(generator)
    with pytest.raises(AssertionError, match=r"page stride 149504.*expected >= 149760"):
        replaced = inputs.k_cache.as_strided(inputs.k_cache.shape, (149_504, 584, 584, 1))
        sparse_mla_decode(inputs.q, replaced, inputs.indices, None, None, 1.0)


@pytest.mark.parametrize(
    ("batch", "heads", "widths", "splits"),
    [
        (1, 16, (128, 512), 20),
        (3, 16, (128, 512), 20),
        (8, 16, (128, 512), 10),
        (9, 16, (128, 512), 10),
        (1, 64, (128, 512), 10),
        (16, 16, (128, 512), 8),
        (32, 16, (128, 512), 4),
        (64, 32, (128, 512), 1),
        (64, 32, (128, 8192), 2),
        (8, 16, (128, 8192), 16),
        (16, 16, (128, 8192), 16),
        (64, 16, (128, 0), 1),
        (16, 16, (128, 0), 4),
        (64, 16, (128, 512), 4),
        (64, 64, (128, 512), 1),
        (1, 16, (128, 0), 4),
        (1, 16, (128, 8192), 260),
        (4096, 16, (128, 512), 1),
    ],
)
def test_tiling_table_of_the_h200(batch: int, heads: int, widths: tuple[int, int], splits: int) -> None:
    assert choose_tiling(batch, heads, *widths, H200.sms).splits == splits


@pytest.mark.parametrize(
    ("batch", "heads", "widths", "expected"),
    [
        (1, 16, (128, 512), Tiling(16, 32, 4, 20)),
        (16, 16, (128, 512), Tiling(16, 64, 8, 10)),  # 160 blocks, where 132 SMs get 128
        (32, 16, (128, 512), Tiling(16, 32, 4, 5)),
        (64, 16, (128, 512), Tiling(16, 32, 4, 5)),
        (64, 32, (128, 512), Tiling(16, 32, 4, 2)),  # 128 blocks fill an H200, but not this card
        (139, 16, (128, 512), Tiling(16, 64, 8, 1)),  # 139 to 188 blocks do
        (189, 16, (128, 512), Tiling(16, 32, 4, 1)),
        (1, 16, (128, 8192), Tiling(16, 32, 4, 260)),
    ],
)
def test_tiling_table_of_the_target(batch: int, heads: int, widths: tuple[int, int], expected: Tiling) -> None:
    assert choose_tiling(batch, heads, *widths, TARGET.sms) == expected


@pytest.mark.parametrize("card", CARDS, ids=str)
def test_splits_never_exceed_a_wave_nor_the_tiles(card: Card) -> None:
    for batch in range(1, 400):
        for width in (0, 512, 8192):
            tiling = choose_tiling(batch, 16, 128, width, card.sms)
            assert 1 <= tiling.splits <= -(-128 // tiling.block_n) + -(-width // tiling.block_n)
            assert tiling.splits == 1 or tiling.splits * batch <= 2 * card.sms


@pytest.mark.gpu
@pytest.mark.parametrize("batch", [1, 3, 8, 17, 64, 65, 300])
@pytest.mark.parametrize("heads", [16, 64])
def test_full_size(tolerance: float, generator: torch.Generator, batch: int, heads: int) -> None:
    inputs = testing.sparse_mla_inputs(batch, heads, 128, 512, generator, main_pages=64, extra_pages=256)
    assert inputs.topk_length is not None and inputs.extra_topk_length is not None
    for row in range(batch):
        inputs.topk_length[row] = 1 + row * 37 % 128
        inputs.extra_topk_length[row] = 1 + row * 101 % 512
    assert relative_error(run(inputs), reference(inputs)) < tolerance


@pytest.mark.gpu
def test_one_graph_serves_growing_lengths(tolerance: float, generator: torch.Generator) -> None:
    inputs = testing.sparse_mla_inputs(8, 16, 128, 512, generator, main_pages=64, extra_pages=256)
    assert inputs.topk_length is not None and inputs.extra_topk_length is not None
    inputs.topk_length.fill_(1)
    inputs.extra_topk_length.fill_(1)
    run(inputs)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = run(inputs)
    for main, extra in ((1, 1), (64, 17), (128, 128), (128, 511), (128, 512), (5, 3)):
        inputs.topk_length.fill_(main)
        inputs.extra_topk_length.fill_(extra)
        out.fill_(float("nan"))
        graph.replay()
        assert relative_error(out, reference(inputs)) < tolerance
