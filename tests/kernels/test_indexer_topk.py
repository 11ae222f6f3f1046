"""Indexer and top-k against the float64 reference: sets, ties, hostile scores, every path of the selection."""

from __future__ import annotations

import pytest
import torch
from dsv4_kernels import layout, testing
from dsv4_kernels.cards import CARDS, H200, TARGET, Card
from dsv4_kernels.indexer_topk.op import indexer_topk
from dsv4_kernels.indexer_topk.reference import indexer_topk_errors, set_error
from dsv4_kernels.indexer_topk.tiling import Tiling, choose_tiling
from dsv4_kernels.testing import IndexerInputs

TOLERANCE = 2e-3  # of the largest score: Hopper's fp8 units add in fewer bits than fp32
TOPK = layout.INDEX_TOPK

SMALL_BLOCKS = Tiling(3, 2, small=1024, size=2048)
IN_PIECES = Tiling(7, 1, small=1024, size=1024)  # one part takes all pieces
SHARED = Tiling(4, 3, small=1024, size=2048)  # three parts, of one or two pieces


def run(inputs: IndexerInputs, tiling: Tiling | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    shape = (inputs.q.shape[0], TOPK)
    out = torch.full(shape, -7, dtype=torch.int32, device=inputs.q.device)
    raw = torch.full(shape, -7, dtype=torch.int32, device=inputs.q.device)
    args = inputs.q, inputs.kv, inputs.weights, inputs.seq_lens, inputs.page_table
    return indexer_topk(*args, out=out, raw=raw, tiling=tiling), raw


def check(inputs: IndexerInputs, out: torch.Tensor, raw: torch.Tensor) -> None:
    args = inputs.q, inputs.kv, inputs.weights, inputs.seq_lens, inputs.page_table
    assert max(indexer_topk_errors(*args, raw)) < TOLERANCE
    page = inputs.page_table.gather(1, raw.clamp_min(0).long() // layout.INDEX_PAGE)
    assert torch.equal(out, torch.where(raw < 0, -1, page * layout.INDEX_PAGE + raw % layout.INDEX_PAGE))
    for row, length in enumerate(inputs.seq_lens.tolist()):
        assert (raw[row, min(length, TOPK) :] == -1).all()


@pytest.mark.parametrize("tiling", [None, SMALL_BLOCKS, IN_PIECES, SHARED])
def test_lengths_at_every_edge(generator: torch.Generator, tiling: Tiling | None) -> None:
    inputs = testing.indexer_inputs([0, 1, 63, 64, 65, 511, 512, 513, 2500], 48, 90, generator)
    check(inputs, *run(inputs, tiling))


@pytest.mark.parametrize("tiling", [IN_PIECES, SHARED])
def test_long_rows_beside_short_ones(generator: torch.Generator, tiling: Tiling) -> None:
    inputs = testing.indexer_inputs([6000, 3, 2500], 100, 200, generator)
    check(inputs, *run(inputs, tiling))


@pytest.mark.parametrize("tiling", [SMALL_BLOCKS, IN_PIECES, SHARED])
@pytest.mark.parametrize("kind", ["equal", "few values", "rising", "falling", "far from zero"])
def test_hostile_scores(generator: torch.Generator, tiling: Tiling, kind: str) -> None:
    """Keys are one vector times a scale each, so a row's scores are its scales."""
    length = 4500
    inputs = testing.indexer_inputs([length], 80, 80, generator)
    inputs.q.fill_(1.0)
    inputs.weights.fill_(1.0 if kind != "falling" else -1.0)
    pages = inputs.kv.view(80, layout.INDEX_PAGE_BYTES)
    pages[:, : layout.INDEX_PAGE_DATA] = 0x38  # 1.0
    place = torch.arange(80 * layout.INDEX_PAGE, device=pages.device, dtype=torch.float32)
    scale = {
        "equal": torch.ones_like(place),
        "few values": 1.0 + place % 3,
        "rising": 1e-4 * (1 + place),
        "falling": 1e-4 * (1 + place),
        "far from zero": 1e6 + place,
    }[kind]
    pages[inputs.page_table[0].long(), layout.INDEX_PAGE_DATA :] = scale.view(80, layout.INDEX_PAGE).view(torch.uint8)
    check(inputs, *run(inputs, tiling))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_scores_that_are_no_numbers_end_in_a_full_set(generator: torch.Generator, bad: float) -> None:
    """What the engine makes of such a row is undefined; here it must end, and name 512 keys of the row."""
    inputs = testing.indexer_inputs([3000], 50, 60, generator)
    inputs.weights[0, ::3] = bad
    _, raw = run(inputs, IN_PIECES)
    assert raw.unique().numel() == TOPK
    assert int(raw.min()) >= 0 and int(raw.max()) < 3000


def test_keys_past_the_length_do_not_matter(generator: torch.Generator) -> None:
    inputs = testing.indexer_inputs([530], 9, 20, generator)
    page = inputs.kv.view(20, -1)[int(inputs.page_table[0, 8])]
    page[18 * layout.INDEX_DIM : layout.INDEX_PAGE_DATA] = 0x7E
    page[layout.INDEX_PAGE_DATA :].view(torch.float32)[18:] = float("inf")
    check(inputs, *run(inputs))


def test_more_rows_than_a_row_block(generator: torch.Generator) -> None:
    inputs = testing.indexer_inputs([500 + row % 40 for row in range(37)], 9, 400, generator)
    check(inputs, *run(inputs, SHARED))


def test_page_table_with_a_stride_and_without_positions(generator: torch.Generator) -> None:
    inputs = testing.indexer_inputs([700, 129], 12, 40, generator)
    wide = torch.zeros((2, 16), dtype=torch.int32, device=inputs.q.device)
    wide[:, :12] = inputs.page_table
    args = inputs.q, inputs.kv, inputs.weights, inputs.seq_lens
    expected = indexer_topk(*args, inputs.page_table)
    assert torch.equal(indexer_topk(*args, wide[:, :12]).sort().values, expected.sort().values)


def test_a_wrong_output_is_refused_with_both_shapes(generator: torch.Generator) -> None:
    inputs = testing.indexer_inputs([64], 1, 4, generator)
    out = torch.empty((1, 256), dtype=torch.int32, device=inputs.q.device)
    args = inputs.q, inputs.kv, inputs.weights, inputs.seq_lens, inputs.page_table
    with pytest.raises(AssertionError, match=r"\(1, 256\), expected contiguous int32 \[1, 512\]"):
        indexer_topk(*args, out=out)


def test_no_rows(generator: torch.Generator) -> None:
    inputs = testing.indexer_inputs([64], 1, 4, generator)
    empty = inputs.q[:0], inputs.kv, inputs.weights[:0], inputs.seq_lens[:0], inputs.page_table[:0]
    assert indexer_topk(*empty).shape == (0, TOPK)


@pytest.mark.parametrize("chosen", [[1, 1], [1, 4], [1, -1]])
def test_a_set_with_repeats_or_strangers_is_infinitely_wrong(chosen: list[int]) -> None:
    scores = torch.tensor([1.0, 4.0, 2.0, 3.0], dtype=torch.float64)
    assert set_error(scores, torch.tensor(chosen), 2) == float("inf")


def test_a_tie_at_the_edge_may_fall_either_way() -> None:
    scores = torch.tensor([1.0, 2.0, 2.0, 3.0], dtype=torch.float64)
    assert set_error(scores, torch.tensor([3, 1]), 2) == set_error(scores, torch.tensor([3, 2]), 2) == 0.0


@pytest.mark.parametrize("batch", [1, 2, 7, 8, 16, 31, 32, 64, 100, 4096])
@pytest.mark.parametrize("pages", [1, 8, 256, 4096, 65_536])
@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_every_part_holds_its_best(batch: int, pages: int, card: Card) -> None:
    """What the pieces keep is one tile for the last part."""
    tiling = choose_tiling(batch, pages, card.sms)
    assert 1 <= tiling.parts <= tiling.pieces
    assert tiling.pieces * tiling.size >= pages * layout.INDEX_PAGE
    assert TOPK <= tiling.slot < tiling.size


@pytest.mark.parametrize(
    ("batch", "pages", "parts"), [(1, 32, 1), (1, 256, 2), (1, 2048, 16), (8, 2048, 16), (64, 2048, 8), (4096, 2048, 1)]
)
def test_tiling_table_of_the_h200(batch: int, pages: int, parts: int) -> None:
    assert choose_tiling(batch, pages, H200.sms).parts == parts


def test_the_target_shares_a_row_between_more_parts() -> None:
    assert (choose_tiling(64, 2048, H200.sms).parts, choose_tiling(64, 2048, TARGET.sms).parts) == (8, 11)


@pytest.mark.gpu
@pytest.mark.parametrize("batch", [1, 8, 64])
@pytest.mark.parametrize("length", [700, 16_384, 70_000])
def test_full_size(generator: torch.Generator, batch: int, length: int) -> None:
    lengths = [max(1, length - row * 397 % length) for row in range(batch)]
    inputs = testing.indexer_inputs(lengths, 4096, 8192, generator)
    for _ in range(3):  # a race would move the result
        check(inputs, *run(inputs))


@pytest.mark.gpu
def test_one_long_row_among_63(generator: torch.Generator) -> None:
    inputs = testing.indexer_inputs([131_072] + [600] * 63, 4096, 8192, generator)
    check(inputs, *run(inputs))


@pytest.mark.gpu
@pytest.mark.parametrize("batch", [2, 40])
def test_one_graph_serves_growing_lengths(generator: torch.Generator, batch: int) -> None:
    inputs = testing.indexer_inputs([60_000] * batch, 1024, 2048, generator)
    run(inputs)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out, raw = run(inputs)
    for length in (1, 512, 513, 9000, 60_000, 3, 40_000):
        inputs.seq_lens.fill_(length)
        graph.replay()
        check(inputs, out, raw)
