"""Make the tiny model: random, or trained for some minutes so that its answers are peaked and a fact far back is found.

    python -m gpu.model.train OUT --corpus FILE.npz --tokenizer DIR [--seconds 150] [--heads 16]     0 seconds: random

Fixed seeds; how many steps fit depends on the card, so two runs give two models: a comparison uses one.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import torch

from gpu.model import checkpoint, reference
from gpu.model.indexers import Indexers
from gpu.model.initial import SEED, initialise
from gpu.model.shape import Shape
from gpu.model.steps import Masters, Step, profiled

# Rows of a batch by their length: attention's weights of the longest take as much memory as all else.
ROWS = {512: 16, 1024: 8, 4096: 1}
# How often a batch has rows of this length; the longest ones teach the indexer.
MIX = {512: 0.6, 1024: 0.25, 4096: 0.15}
HELD_OUT = 64  # rows of each length that no batch has: what servers and oracle are asked
PROFILED = 1  # the step that is profiled: kernels are made by then, and it is not yet a graph
WARM_UP = 0.05  # of the time
TINY = {"hidden": 256, "heads": 8, "head_dim": 64, "rope_dim": 16, "q_rank": 128, "o_rank": 64, "index_heads": 4,
        "index_dim": 32, "experts": 16, "expert_width": 64}  # fmt: skip


def batches(corpus: Path, device: str) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Token ids [rows, length] and what is learned of them, forever."""
    data, rng = numpy.load(corpus), numpy.random.default_rng(SEED)
    lengths = {length: data[f"tokens_{length}"].astype(numpy.int64) for length in MIX}
    answers = {length: data[f"answers_{length}"].astype(bool) for length in MIX}
    while True:
        length = int(rng.choice(list(MIX), p=list(MIX.values())))
        rows = rng.integers(0, len(lengths[length]) - HELD_OUT, ROWS[length])
        yield torch.from_numpy(lengths[length][rows]).to(device), torch.from_numpy(answers[length][rows]).to(device)


def rate(done: float) -> float:
    """Share of the peak rate when `done` of the time is spent: up, flat, down to nearly nothing."""
    return min(1.0, done / WARM_UP + 0.02, max(0.02, (1 - done) / 0.5))


class Training:
    """The steps by length of row, what they share, and a line of figures every five seconds."""

    def __init__(self, model: Any, width: int) -> None:
        self.model = model
        for name, parameter in model.named_parameters():
            parameter.requires_grad_("experts." not in name or "shared" in name)
        self.indexers, self.masters = Indexers(model), Masters(model, width)
        self.on_card = next(model.parameters()).is_cuda
        self.pool = torch.cuda.graph_pool_handle() if self.on_card else None
        self.by_length: dict[int, Step] = {}
        self.steps, self.said, self.means = 0, -5.0, [math.nan, math.nan]

    def step(self, ids: torch.Tensor, learned: torch.Tensor, done: float, elapsed: float) -> None:
        length = ids.shape[1]
        if length not in self.by_length:
            self.by_length[length] = Step(self.model, self.indexers, self.masters, len(ids), length, self.pool)
        self.masters.set_rate(rate(done))
        if self.steps == PROFILED and self.on_card:
            profiled(self.by_length[length], ids, learned)
        else:
            self.by_length[length](ids, learned)
        self.steps += 1
        if self.steps % 8 == 1:
            self.tell(self.by_length[length].losses.tolist(), elapsed)  # waits for the card

    def tell(self, found: list[float], elapsed: float) -> None:
        first = math.isnan(self.means[0])
        self.means = found if first else [0.8 * old + 0.2 * new for old, new in zip(self.means, found, strict=True)]
        if elapsed - self.said < 5:
            return
        self.said = elapsed
        used = torch.cuda.memory_reserved() / 2**30 if self.on_card else 0
        line = {"reserved_gib": round(used, 1), "step": self.steps, "seconds": round(elapsed, 1)}
        print(json.dumps(line | {"answers": self.means[0], "indexer": self.means[1]}), flush=True)


def train(model: Any, corpus: Path, seconds: float, width: int) -> dict[str, Any]:
    """Train for so many seconds; the rate falls with the time, not with the steps."""
    device = str(next(model.parameters()).device)
    if device != "cpu":
        torch.cuda.set_stream(torch.cuda.Stream())  # the default stream cannot be captured
    # The mixing weights' products are float32, long and 24 wide: without TF32 they would take most of a step.
    torch.set_float32_matmul_precision("high")
    training, source = Training(model, width), batches(corpus, device)
    model.train()
    begun = time.monotonic()
    while (elapsed := time.monotonic() - begun) < seconds:
        training.step(*next(source), elapsed / seconds, elapsed)
    model.eval()
    answers, indexer = training.means
    return {"steps": training.steps, "seconds": seconds, "loss": answers, "indexer_loss": indexer}


def resumed(model: Any, shape: Shape, out: Path) -> int:
    """Take the weights of an earlier run, as they were quantised; returns its steps. The optimiser starts from zero."""
    if not (out / "training.json").exists():
        return 0
    own = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    for name, value in checkpoint.dense(out, shape):
        own[name].data.copy_(value)
    story = json.loads((out / "training.json").read_text())
    return int(story["steps"]) + int(story.get("steps_before", 0))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Make the tiny DeepSeek-V4.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--resume", action="store_true", help="train on from the checkpoint in OUT, where there is one")
    parser.add_argument("--tiny", action="store_true", help="widths for a rehearsal on the CPU; no kernel takes them")
    return parser.parse_args()


def main() -> None:
    options = parsed()
    shape = replace(Shape(heads=options.heads), **TINY) if options.tiny else Shape(heads=options.heads)
    torch.manual_seed(SEED)
    begun = time.monotonic()
    # bfloat16 throughout, as the engine computes; processors without it would take minutes a step
    dtype = torch.float32 if options.device == "cpu" else torch.bfloat16
    model = reference.empty(shape, options.device, dtype)
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)
    initialise(model, shape)
    before = resumed(model, shape, options.out) if options.resume else 0
    print(f"made in {time.monotonic() - begun:.1f} s", flush=True)
    story = train(model, options.corpus, options.seconds, shape.hidden) if options.seconds else {"steps": 0}
    story["steps_before"] = before
    weights = {k: v.detach() for k, v in [*model.named_parameters(), *model.named_buffers()]}
    size = checkpoint.write(shape, weights, options.tokenizer, options.out, options.device)
    (options.out / "training.json").write_text(json.dumps(story))
    print(f"{options.out}: {size / 1e9:.2f} GB, {story}, {time.monotonic() - begun:.1f} s in all", flush=True)


if __name__ == "__main__":
    main()
