"""Every kernel, compiled for sm_120 with no GPU: what ptxas says that it needs must fit the card."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import triton
from dsv4_kernels import layout
from dsv4_kernels.aot.compile import parse_report

ROOT = Path(__file__).resolve().parents[2]
SOURCES = os.pathsep.join(str(ROOT / name) for name in ("kernels", "hooks"))
SHIPPED = re.search(r"^triton==(\S+)", (ROOT / "docker/engine.lock").read_text(), re.MULTILINE)
REGISTERS_PER_SM = 65_536
SHARED_PER_SM = 102_400  # sm_120: 100 KB an SM, of which each block also takes 1 KB
BLOCK_RESERVE = 1_024


def compile_all(*arguments: str) -> list[dict[str, Any]]:
    """In a process of its own: this one may hold the kernels as interpreter functions."""
    environ = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environ["PYTHONPATH"] = SOURCES
    command = [sys.executable, "-m", "dsv4_kernels.aot", *arguments]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def reports() -> list[dict[str, Any]]:
    return compile_all("120")


def named(reports: list[dict[str, Any]], prefix: str) -> list[dict[str, Any]]:
    found = [report for report in reports if report["name"].startswith(prefix)]
    assert found, f"no kernel named {prefix}"
    return found


@pytest.mark.skipif(not SHIPPED or triton.__version__ != SHIPPED[1], reason="registers are those of the image's Triton")
def test_no_kernel_spills(reports: list[dict[str, Any]]) -> None:
    for report in reports:
        spilled = report["stack_bytes"], report["spill_store_bytes"], report["spill_load_bytes"]
        assert spilled == (0, 0, 0), report


def test_every_kernel_fits_a_block_of_sm120(reports: list[dict[str, Any]]) -> None:
    for report in reports:
        assert report["shared_bytes"] <= layout.SM120_SHARED_BYTES, report
        assert report["registers"] <= 255
        assert report["registers"] * report["threads"] <= REGISTERS_PER_SM


@pytest.mark.parametrize("scope", ["c4", "c128", "swa"])
def test_two_blocks_of_sparse_mla_share_an_sm(reports: list[dict[str, Any]], scope: str) -> None:
    for report in named(reports, "sparse_mla_split"):
        if f" {scope} keys=32 " in report["name"]:
            assert 2 * (report["shared_bytes"] + BLOCK_RESERVE) <= SHARED_PER_SM, report
            assert 2 * report["registers"] * report["threads"] <= REGISTERS_PER_SM, report


@pytest.mark.parametrize("kernel", ["sparse_mla_split", "mhc_mix", "indexer_logits"])
def test_products_run_on_tensor_cores_without_hopper_instructions(reports: list[dict[str, Any]], kernel: str) -> None:
    for report in named(reports, kernel):
        assert report["instructions"]["mma.sync"] > 0
        assert report["instructions"]["wgmma"] == 0


def test_a_hopper_card_times_the_same_products() -> None:
    """What the H200 figures stand on: no Hopper matrix instruction there either, and the same number of mma.sync."""
    (hopper,), (sm120,) = (compile_all(card, "sparse_mla_split H=16 swa keys=32") for card in ("90", "120"))
    assert hopper["instructions"]["wgmma"] == 0
    assert hopper["instructions"]["mma.sync"] == sm120["instructions"]["mma.sync"] > 0
    assert hopper["shared_bytes"] == sm120["shared_bytes"]


def test_the_indexer_reads_ahead(reports: list[dict[str, Any]]) -> None:
    assert all(report["instructions"]["cp.async"] > 0 for report in named(reports, "indexer_logits"))


def test_topk_exchanges_next_to_nothing_in_shared_memory(reports: list[dict[str, Any]]) -> None:
    """A layout change before its scattered stores would show here, as tens of kilobytes."""
    for report in named(reports, "indexer_topk"):
        assert report["shared_bytes"] <= BLOCK_RESERVE


def test_a_report_without_figures_is_an_error() -> None:
    with pytest.raises(ValueError, match="no resource report"):
        parse_report("ptxas info : Compiling entry function")


def test_spills_are_read() -> None:
    text = "    16 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads\nptxas info : Used 255 registers"
    assert parse_report(text) == (255, 16, 12, 20)
