"""What passes and what is refused: by rule, and on the figures of every machine that a record was kept of."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest

from gpu.verdict import Difference, verdict

RECORDS = sorted((Path(__file__).parent / "records").glob("*/kernels.jsonl"))
NOISE = Difference(100, 0.001, 0.05, 1e-5, 1e-3, 0.999)
FAR = Difference(100, 0.04, 0.4, 3e-3, 0.1, 0.95)
NEAR = Difference(100, 0.01, 0.2, 3e-4, 0.02, 0.99)


def test_as_near_as_the_engine_s_own_passes() -> None:
    assert verdict(NOISE, FAR, NEAR, FAR) == []


@pytest.mark.parametrize(
    ("near", "own", "said"),
    [
        (NEAR, replace(FAR, kl_mean=FAR.kl_mean * 1.3), "from the oracle"),
        (replace(NEAR, kl_mean=FAR.kl_mean), FAR, "mean KL from the engine's own"),
        (replace(NEAR, dlogprob_mean=FAR.dlogprob_mean), FAR, "mean |dlogprob|"),
        (replace(NEAR, agree=0.9), FAR, "top-1"),
        (replace(NEAR, kl_mean=float("nan")), FAR, "mean KL from the engine's own nan"),
        (NEAR, replace(FAR, kl_mean=float("nan")), "from the oracle nan"),
    ],
)
def test_each_distance_alone_refuses(near: Difference, own: Difference, said: str) -> None:
    (why,) = verdict(NOISE, FAR, near, own)
    assert said in why


def test_a_noisy_engine_allows_more() -> None:
    loud = replace(NOISE, kl_mean=FAR.kl_mean, dlogprob_mean=FAR.dlogprob_mean)
    assert verdict(loud, FAR, replace(NEAR, kl_mean=2 * FAR.kl_mean, dlogprob_mean=2 * FAR.dlogprob_mean), FAR) == []


@pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.parent.name)
def test_on_real_cards_ours_passes_and_every_wrong_kernel_is_refused(record: Path) -> None:
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    names = {field.name for field in fields(Difference)}
    found = {
        (line["case"], line["kind"]): Difference(**{k: v for k, v in line.items() if k in names})
        for line in lines
        if "kl_mean" in line
    }
    cases = {case for case, _ in found}
    assert len(cases) >= 5
    refused: dict[str, set[str]] = {}
    for case in cases:
        base = found[case, "noise"], found[case, "stock-oracle"]
        assert verdict(*base, found[case, "ours-stock"], found[case, "ours-oracle"]) == [], case
        for wrong in {kind.split("-")[0] for c, kind in found if c == case} - {"noise", "stock", "ours"}:
            why = verdict(*base, found[case, f"{wrong}-stock"], found[case, f"{wrong}-oracle"])
            refused.setdefault(wrong, set()).update([case] if why else [])
    assert all(refused.values()), "as the part demands it: by one case at least"
