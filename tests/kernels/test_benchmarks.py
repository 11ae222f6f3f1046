"""The benchmark's own rules: no number behind a red gate, engine files load as they are installed, data is complete."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks import indexer, indexer_topk, mhc, peers, sparse_mla
from benchmarks.results import GateError, gate
from dsv4_kernels import layout, testing
from dsv4_kernels.mhc_post_pre.reference import mhc_post_pre_reference

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


@pytest.mark.parametrize("name", sparse_mla.LAYERS)
def test_sparse_mla_inputs_pass_our_own_gate(generator: torch.Generator, name: str) -> None:
    whole = sparse_mla.LAYERS[name]
    layer = replace(whole, width=whole.width // 16, length=whole.length // 16, pages=9)
    pools = testing.attention_cache(1, layout.SWA_PAGE, generator), sparse_mla.pool(layer, generator)
    case = sparse_mla.inputs(1, 16, layer, pools, generator)
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
    x, before, post, mixes, fn, scale, base, norm = mhc.tensors(case)
    constants = mhc.CONSTANTS
    residual, _, comb, layer_input = mhc_post_pre_reference(x, before, post, mixes, fn, scale, base, norm, constants)
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


def documented(page: str, first: str) -> list[str]:
    """The cells of the one table row of docs/kernels/PAGE that starts so."""
    text = (DATA.parents[2] / "docs" / "kernels" / page).read_text()
    (row,) = [line for line in text.splitlines() if line.startswith(first)]
    return [cell.strip().replace(",", "") for cell in row.strip("|").split("|")]


def measured(run: str = "5", **key: object) -> dict[str, float]:
    """Microseconds by implementation, of a run that had every peer in one process."""
    lines_of_run = [line for line in lines() if line["run"] == run]
    return {line["impl"]: line["us"] for line in lines_of_run if key.items() <= line.items()}


@pytest.mark.parametrize(("layer", "heads", "batch"), sparse_mla.CASES)
def test_the_documented_sparse_mla_figures_are_the_measured_ones(layer: str, heads: int, batch: int) -> None:
    cells = documented("sparse_mla_decode.md", f"| {layer} | {heads} | {batch} |")
    found = measured("9", op="sparse_mla", layer=layer, H=heads, B=batch)
    assert float(cells[3]) == pytest.approx(found["dsv4"], abs=0.06)
    peers_of = ("sglang-triton-fallback", "flashmla", "sglang-triton-dual-scope")
    for column, peer in zip((5, 7, 9), peers_of, strict=True):
        if peer in found:
            assert float(cells[column]) == pytest.approx(found[peer] / found["dsv4"], rel=6e-3, abs=6e-3)
        else:
            assert cells[column] == ""


@pytest.mark.parametrize(("maximum", "context", "batch"), indexer.CASES)
def test_the_documented_logits_figures_are_the_measured_ones(maximum: int, context: int, batch: int) -> None:
    cells = documented("indexer_logits.md", f"| {maximum >> 10}k | {short(context)} | {batch} |")
    found = measured(op="indexer", max_context=maximum, context=context, B=batch)
    for column, name in ((3, "dsv4"), (4, "dsv4-skip-identity")):
        assert float(cells[column]) == pytest.approx(found[name], abs=0.06)
    for column, name in ((6, "sglang-tilelang"), (8, "deepgemm"), (10, "sglang-torch-fallback")):
        assert float(cells[column]) == pytest.approx(found[name] / found["dsv4"], rel=6e-3, abs=6e-3)


@pytest.mark.parametrize(("maximum", "context", "batch"), indexer_topk.CASES)
def test_the_documented_topk_figures_are_the_measured_ones(maximum: int, context: int, batch: int) -> None:
    cells = documented("indexer_topk.md", f"| {maximum >> 10}k | {short(context)} | {batch} |")
    found = measured("7", op="indexer_topk", max_context=maximum, context=context, B=batch)
    assert float(cells[3]) == pytest.approx(found["dsv4"], abs=0.06)
    for column, name in ((5, "sglang-tilelang+topk"), (7, "deepgemm+topk")):
        assert float(cells[column]) == pytest.approx(found[name] / found["dsv4"], rel=6e-3, abs=6e-3)


def short(context: int) -> str:
    return str(context) if context < 1024 else f"{context >> 10}k"


@pytest.mark.parametrize("tokens", mhc.TOKENS)
def test_the_documented_mhc_figures_are_the_measured_ones(tokens: int) -> None:
    cells = documented("mhc_post_pre.md", f"| {tokens} |")
    found = measured(op="mhc", T=tokens)
    assert float(cells[1]) == pytest.approx(found["dsv4"], abs=0.06)
    assert float(cells[3]) == pytest.approx(found["sglang-tilelang"] / found["dsv4"], rel=6e-3, abs=6e-3)
