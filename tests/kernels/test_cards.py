"""Cards and tilings: what was measured on the H200 stays as it was, whatever else a table learns."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import pytest
import torch
from dsv4_kernels import cards, present
from dsv4_kernels.cards import H200, RTX_PRO_6000, Card
from dsv4_kernels.indexer_logits.tiling import choose_tiling as logits_tiling
from dsv4_kernels.indexer_topk.tiling import choose_tiling as topk_tiling
from dsv4_kernels.sparse_mla_decode.tiling import choose_tiling as mla_tiling

WIDTHS = ((128, 0), (128, 512), (128, 64), (128, 1024), (128, 8192), (64, 0))
PAGES = (1, 8, 256, 4096, 16384)
BATCHES = range(1, 300)


def digest(tilings: Iterable[object]) -> str:
    return hashlib.sha256("\n".join(map(str, tilings)).encode()).hexdigest()[:16]


def test_the_measured_tilings_of_the_h200_are_unchanged() -> None:
    """Taken from the tables that the figures in docs/kernels were measured with. A new measurement changes them."""
    sms = H200.sms
    mla = (mla_tiling(batch, heads, *widths, sms) for batch in BATCHES for heads in (16, 32, 64) for widths in WIDTHS)
    assert digest(mla) == "9b33b8ac54df090a"
    assert digest(logits_tiling(batch, pages, sms) for batch in BATCHES for pages in PAGES) == "54c29d5f30b2bd98"
    assert digest(topk_tiling(batch, pages, sms) for batch in BATCHES for pages in PAGES) == "de503cf15705ecae"


def test_no_tiling_reads_the_card_itself() -> None:
    """The same shapes and the same count give the same launch, which a captured CUDA graph stands on."""
    assert mla_tiling(7, 16, 128, 512, 188) == mla_tiling(7, 16, 128, 512, 188) != mla_tiling(7, 16, 128, 512, 40)


def test_the_card_that_answers_counts_its_own_sms() -> None:
    slice_of_it = cards.of_device("NVIDIA H200 MIG 1g.18gb", 90, 16)
    assert (slice_of_it.sms, slice_of_it.measured) == (16, False)
    assert cards.of_device("NVIDIA H200", 90, 132).measured
    target = cards.of_device("NVIDIA RTX PRO 6000 Blackwell Server Edition", 120, 188)
    assert (target.sms, target.measured) == (RTX_PRO_6000.sms, False)


def test_an_unknown_capability_is_refused_where_there_is_no_card() -> None:
    with pytest.raises(ValueError, match="compute capability 100, expected one of 90, 120"):
        cards.of_capability(100)


def test_a_card_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[torch.device] = []

    class Properties:
        name, major, minor, multi_processor_count = "NVIDIA GeForce RTX 5090", 12, 0, 170

    def properties(device: torch.device) -> Properties:
        asked.append(device)
        return Properties()

    monkeypatch.setattr(torch.cuda, "get_device_properties", properties)
    device = torch.device("cuda", 77)
    assert present.card_of(device) == present.card_of(device) == Card("NVIDIA GeForce RTX 5090", 120, 170)
    assert asked == [device]


def test_without_a_card_it_is_the_products() -> None:
    assert present.card_of(torch.device("cpu")) == cards.TARGET
