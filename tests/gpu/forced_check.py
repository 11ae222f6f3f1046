"""Forced tokens through a real server against the model itself: python -m gpu.forced_check URL MODEL FOLDER"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy
import torch

from gpu import forced
from gpu.cases import Case

# Longer than a chunk of prefill, so that middle chunks are sampled and dropped; several at once, so that rows move.
CASE = Case("3 x 600", 3, 600, 12, 3)
CLOSE = 2e-3  # nats: float32 on both sides, in another order


@dataclass(frozen=True)
class Address:
    """As much of a server as forced.distributions asks of it."""

    name: str
    url: str


def main() -> int:
    url, model, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    corpus = folder / "corpus.npz"
    tokens = numpy.random.default_rng(1).integers(5, 1500, (80, 512)).astype(numpy.uint16)
    numpy.savez(corpus, tokens_512=tokens, answers_512=numpy.zeros_like(tokens))
    found = forced.distributions(cast(Any, Address("cpu", url)), CASE, corpus, folder / "rows")
    worst = 0.0
    for (prompt, wanted), rows in zip(CASE.prompts(corpus), found, strict=True):
        worst = max(worst, float(numpy.abs(rows - own(model, prompt + wanted[:-1], len(wanted))).max()))
    print(f"{len(found)} requests, farthest log-probability {worst:.2e}, expected within {CLOSE}")
    return int(worst > CLOSE)


def own(model: str, tokens: list[int], last: int) -> numpy.ndarray:
    from transformers import AutoModelForCausalLM

    network = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
    with torch.no_grad():
        logits = network(torch.tensor([tokens])).logits[0, -last:]
    rows: numpy.ndarray = torch.log_softmax(logits, dim=-1).numpy()
    return rows


if __name__ == "__main__":
    sys.exit(main())
