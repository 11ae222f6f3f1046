"""One's own figures beside public ones: the same kind of card and the same model, or the word that nothing compares."""

from __future__ import annotations

from typing import Any

import pytest
from dsv4_pd.bench import bars
from dsv4_pd.bench.results import Run

TABLE = bars.read()
PRO = "NVIDIA RTX PRO 6000 Blackwell Server Edition"


def run_of(card: str | None, cards: int, model: str, *points: dict[str, Any]) -> Run:
    gpus = [{"name": card}] * cards if card else []
    placement = {"decode": {"gpus": [str(n) for n in range(cards)]}}
    return Run(
        {"appliance": {"machine": {"gpus": gpus}, "weights": {"name": model}, "placement": placement}}, list(points)
    )


def point(concurrency: int, rate: float, size: int = 1024, ttft: float = 1.0) -> dict[str, Any]:
    return {"name": f"c{concurrency}", "concurrency": concurrency, "output_tokens_per_s": rate, "input_tokens": size,
            "ttft": {"p50": ttft}}  # fmt: skip


def test_each_figure_has_its_source_and_is_a_number() -> None:
    assert len(TABLE) >= 8
    for bar in TABLE:
        assert bar.source and bar.date and bar.setup and bar.what in ("decode", "prefill")
        assert bar.model in ("flash", "v4.1-flash") and bar.cards in (2, 4) and bar.layout == f"single:{bar.cards}"
        assert bar.figures and all(at > 0 and value > 0 for at, value in bar.figures)
        assert bars.card_kind(bar.card) == bar.card


@pytest.mark.parametrize(
    "card", [None, "NVIDIA H200", "NVIDIA RTX PRO 5000 Blackwell", "NVIDIA RTX 6000 Ada Generation"]
)
def test_another_card_is_not_comparable(card: str | None) -> None:
    told = bars.lines(run_of(card, 2, "DeepSeek-V4-Flash", point(8, 9999)), TABLE)
    assert len(told) == 1 and "not comparable" in told[0] and (card or "no GPU") in told[0] and "%" not in told[0]


def test_another_model_is_not_comparable() -> None:
    told = bars.lines(run_of(PRO, 2, "/share/demo/model", point(8, 9999)), TABLE)
    assert len(told) == 1 and "not comparable" in told[0] and "model" in told[0]


def test_the_same_cards_are_compared_and_below_is_said() -> None:
    told = bars.lines(run_of(PRO, 2, "deepseek-ai/DeepSeek-V4-Flash-0731", point(8, 600.0)), TABLE)
    assert any("600 decode tokens/s, 90% of 667" in line and line.endswith("below") for line in told), told
    assert not any("923" in line for line in told), "that one was Max-Q"
    above = bars.lines(run_of(PRO, 2, "flash-0731", point(8, 700.0)), TABLE)
    assert any(line.endswith("at or above") for line in above)


def test_more_cards_are_an_extrapolation_and_say_so() -> None:
    told = bars.lines(run_of(PRO, 8, "flash-0731", point(32, 2000.0)), TABLE)
    assert any("75% of 2,668" in line and "4 times 2 cards: an extrapolation" in line for line in told), told
    assert bars.lines(run_of(PRO, 3, "flash-0731", point(8, 1.0)), TABLE)[0].startswith(
        "public figures: not comparable"
    )


def test_prefill_is_held_against_prompts_of_like_length_alone() -> None:
    told = bars.lines(run_of(PRO, 2, "flash-0731", point(1, 100.0, 32768, 4.0)), TABLE)
    assert any("8,192 prefill tokens/s, 59% of 13,957" in line for line in told), told
    for other in (point(1, 100.0, 1024, 0.1), point(2, 100.0, 32768, 4.0)):
        assert not any("prefill" in line for line in bars.lines(run_of(PRO, 2, "flash-0731", other), TABLE))
