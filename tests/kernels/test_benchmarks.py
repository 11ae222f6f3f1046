"""The benchmark's own rules: no number behind a red gate, engine files load as they are installed, data is complete."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks import indexer, mhc, peers, sparse_mla
from benchmarks.results import GateError, gate
from dsv4_kernels import layout, testing

DATA = Path(__file__).resolve().parents[2] / "kernels" / "benchmarks" / "data"


@pytest.mark.parametrize("error", [float("nan"), float("inf"), 1e-2])
def test_a_wrong_result_is_never_timed(error: float) -> None:
    with pytest.raises(GateError, match=r"expected below 0\.005"):
        gate(error, 5e-3, "ours")


def test_engine_files_load_without_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "kernels" / "thing.py"
    source.parent.mkdir()
    source.write_text(
        "from sglang.srt.utils import is_hip\nfrom sglang.srt.environ import envs\nHIP = is_hip()\nE = envs\n"
    )
    monkeypatch.setattr("sys.meta_path", list(__import__("sys").meta_path))
    module = peers.load_engine_file(tmp_path, "kernels/thing.py")
    assert module.HIP is False
    assert module.E.SGLANG_OPT_DEEPGEMM_HC_PRENORM.get() is False


def test_a_vendor_that_is_not_installed_is_left_out() -> None:
    assert peers.optional("no_such_vendor_package") is None


def test_sparse_mla_inputs_pass_our_own_gate(generator: torch.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse_mla, "MAIN_PAGES", 1)
    monkeypatch.setattr(sparse_mla, "EXTRA_PAGES", 9)
    pools = (
        testing.attention_cache(1, layout.SWA_PAGE, generator),
        testing.attention_cache(9, layout.C4_PAGE, generator),
    )
    case = sparse_mla.inputs(1, 16, pools, generator)
    gate(testing.relative_error(sparse_mla.ours(case), sparse_mla.expected(case)), 1e-2, "ours")


def test_indexer_inputs_use_distinct_pages(generator: torch.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexer, "POOL_PAGES", 64)
    pool = testing.index_cache(64, generator)
    case = indexer.inputs(8192, 2048, 4, pool, generator)
    used = case.page_table[:, :8].flatten()
    assert used.unique().numel() == 32
    assert case.max_seq_len == 2048


def test_mhc_errors_accept_the_reference_itself(generator: torch.Generator) -> None:
    case = testing.mhc_inputs(1, generator)
    residual, _, comb, layer_input = mhc.mhc_post_pre_reference(*mhc.tensors(case), mhc.CONSTANTS)
    assert mhc.errors(case, residual, comb, layer_input) == [0.0, 0.0]


def lines() -> list[dict[str, Any]]:
    return [json.loads(line) for file in sorted(DATA.glob("*.jsonl")) for line in file.read_text().splitlines()]


def test_every_figure_stands_behind_a_machine_line() -> None:
    machines = {line["run"] for line in lines() if line["op"] == "machine"}
    assert {line["run"] for line in lines()} == machines
    for line in lines():
        if line["op"] == "machine":
            assert line["gpu"]
            assert line["triton"]
            assert line["torch"]


def test_the_documented_sparse_mla_figures_are_the_measured_ones() -> None:
    """docs/kernels/sparse_mla_decode.md: ours by the tiling that the op chooses, peers of the same run."""
    text = (DATA.parents[2] / "docs" / "kernels" / "sparse_mla_decode.md").read_text()
    measured = [line for line in lines() if line["op"] == "sparse_mla"]
    for heads in sparse_mla.HEADS:
        for batch in sparse_mla.BATCHES:
            chosen = sparse_mla.choose_tiling(batch, heads, 128, 512)
            shape = [chosen.block_h, chosen.block_n, chosen.num_warps, chosen.splits]
            rows = [line for line in measured if (line["B"], line["H"]) == (batch, heads)]
            (ours,) = [line["us"] for line in rows if line.get("tiling") == shape]
            (stock,) = [line["us"] for line in rows if line["impl"] == "sglang-triton-fallback"]
            (vendor,) = [line["us"] for line in rows if line["impl"] == "flashmla"]
            (row,) = [line for line in text.splitlines() if line.startswith(f"| {heads} | {batch} |")]
            cells = [cell.strip().replace(",", "") for cell in row.strip("|").split("|")]
            assert float(cells[2]) == pytest.approx(ours, abs=0.06)
            assert float(cells[4]) == pytest.approx(stock / ours, abs=0.06)
            assert float(cells[6]) == pytest.approx(vendor / ours, abs=0.006)
