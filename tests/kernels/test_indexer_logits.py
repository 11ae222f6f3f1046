"""Indexer logits against the float64 reference: lengths at every edge, poisoned tails, work by real length."""

from __future__ import annotations

import pytest
import torch
from dsv4_kernels import layout, testing
from dsv4_kernels.cards import H200, TARGET
from dsv4_kernels.indexer_logits.op import indexer_logits
from dsv4_kernels.indexer_logits.reference import indexer_logits_reference
from dsv4_kernels.indexer_logits.tiling import Tiling, choose_tiling
from dsv4_kernels.testing import IndexerInputs, relative_error

TOLERANCE = 2e-3  # Hopper's fp8 units add in fewer bits than fp32
EDGES = [1, 63, 64, 65, 512, 513]


def run(inputs: IndexerInputs, tiling: Tiling | None = None, skip_identity: bool = False) -> torch.Tensor:
    shape = (inputs.q.shape[0], inputs.max_seq_len)
    out = torch.full(shape, float("nan"), dtype=torch.float32, device=inputs.q.device)
    args = inputs.q, inputs.kv, inputs.weights, inputs.seq_lens, inputs.page_table, inputs.max_seq_len
    return indexer_logits(*args, skip_identity=skip_identity, tiling=tiling, out=out)


def check(inputs: IndexerInputs, out: torch.Tensor) -> None:
    expected = indexer_logits_reference(inputs.q, inputs.kv, inputs.weights, inputs.seq_lens, inputs.page_table)
    # over all rows: a row of one key may be the small difference of large products
    found = torch.cat([out[row, : scores.numel()] for row, scores in enumerate(expected)])
    assert found.numel() == 0 or relative_error(found, torch.cat(expected)) < TOLERANCE
    for row, scores in enumerate(expected):
        assert out[row, scores.numel() :].isnan().all(), "a position past the row's length was written"


@pytest.mark.parametrize("tiling", [None, Tiling(2, 5, 16), Tiling(1, 1, 16), Tiling(1, 400, 16)])
def test_lengths_at_every_edge(generator: torch.Generator, tiling: Tiling | None) -> None:
    inputs = testing.indexer_inputs(EDGES, 12, 40, generator)
    check(inputs, run(inputs, tiling))


@pytest.mark.parametrize("lengths", [[0, 70, 0, 0, 1], [0, 0], [130], [1] * 33])
def test_empty_and_uneven_rows(generator: torch.Generator, lengths: list[int]) -> None:
    inputs = testing.indexer_inputs(lengths, 4, 40, generator)
    check(inputs, run(inputs, Tiling(1, 3, 16)))


def test_more_rows_than_a_row_block(generator: torch.Generator) -> None:
    inputs = testing.indexer_inputs([row % 5 for row in range(37)], 2, 64, generator)
    check(inputs, run(inputs, Tiling(1, 2, 16)))


def test_rows_that_topk_takes_whole_are_not_computed(generator: torch.Generator) -> None:
    inputs = testing.indexer_inputs([512, 513], 10, 40, generator)
    out = run(inputs, skip_identity=True)
    assert out[0].isnan().all()
    assert not out[1, :513].isnan().any()


def test_scores_past_the_length_in_the_last_page_do_not_matter(generator: torch.Generator) -> None:
    """The tail of the last page holds NaN codes and NaN scales."""
    inputs = testing.indexer_inputs([70], 2, 4, generator)
    page = inputs.kv.view(4, -1)[int(inputs.page_table[0, 1])]
    page[6 * layout.INDEX_DIM : layout.INDEX_PAGE_DATA] = 0xFF
    page[layout.INDEX_PAGE_DATA :].view(torch.float32)[6:] = float("nan")
    check(inputs, run(inputs))


def test_page_table_with_a_stride(generator: torch.Generator) -> None:
    inputs = testing.indexer_inputs([200, 129], 8, 40, generator)
    wide = torch.zeros((2, 16), dtype=torch.int32, device=inputs.q.device)
    wide[:, :8] = inputs.page_table
    inputs.page_table = wide[:, :8]
    check(inputs, run(inputs))


def test_a_wrong_layout_is_refused_with_both_numbers(generator: torch.Generator) -> None:
    inputs = testing.indexer_inputs([64], 1, 4, generator)
    inputs.kv = inputs.kv.view(4, 32, 1, 264)
    with pytest.raises(AssertionError, match=r"\(4, 32, 1, 264\), expected bytes \[pages, 64, 1, 132\]"):
        run(inputs)


@pytest.mark.parametrize(
    ("batch", "pages", "programs"), [(1, 1, 1), (1, 2048, 528), (64, 8, 256), (3, 5, 9), (64, 4096, 528)]
)
def test_tiling_table_of_the_h200(batch: int, pages: int, programs: int) -> None:
    assert choose_tiling(batch, pages, H200.sms).programs == programs


def test_the_target_runs_more_programs() -> None:
    assert choose_tiling(64, 4096, TARGET.sms).programs == 752


def test_grid_does_not_follow_the_maximum_context() -> None:
    assert choose_tiling(64, 4096, 132) == choose_tiling(64, 65_536, 132)


@pytest.mark.gpu
@pytest.mark.parametrize("batch", [1, 7, 64, 200])
def test_full_size(generator: torch.Generator, batch: int) -> None:
    inputs = testing.indexer_inputs([1 + row * 997 % 9000 for row in range(batch)], 256, 4096, generator)
    check(inputs, run(inputs))


@pytest.mark.gpu
def test_one_graph_serves_growing_lengths(generator: torch.Generator) -> None:
    inputs = testing.indexer_inputs([9000] * 4, 256, 1024, generator)
    run(inputs)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = run(inputs)
    for length in (1, 64, 65, 4096, 9000, 3):
        inputs.seq_lens.fill_(length)
        out.fill_(float("nan"))
        graph.replay()
        # the fill inside the captured run poisons first, so the check also sees what was left unwritten
        check(inputs, out)
