"""Make the tiny model: random, or trained for some minutes so that its answers are peaked and a fact far back is found.

    python -m gpu.model.train OUT --corpus FILE.npz --tokenizer DIR [--seconds 150] [--heads 16]     0 seconds: random

What is trained is the narrow model (model/widen.py); it is kept beside the checkpoint, and a further run trains it on.
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
from safetensors import safe_open
from safetensors.torch import save_file

from gpu.model import checkpoint, reference
from gpu.model.asked import HELD_OUT, right_answers
from gpu.model.indexers import Indexers
from gpu.model.initial import SEED, initialise
from gpu.model.shape import Shape
from gpu.model.steps import Masters, Step, profiled
from gpu.model.widen import widened

# Rows of a batch by their length: attention's weights of the longest take as much memory as all else.
ROWS = {512: 16, 1024: 8, 4096: 2}
# How often a batch has rows of this length; the longest ones teach the indexer.
MIX = {512: 0.6, 1024: 0.25, 4096: 0.15}
PROFILED = 1  # the step that is profiled: kernels are made by then, and it is not yet a graph
WARM_UP = 0.05  # of the time
TINY = {"hidden": 256, "heads": 8, "head_dim": 64, "rope_dim": 16, "q_rank": 128, "o_rank": 64, "index_heads": 4,
        "index_dim": 32, "experts": 16, "expert_width": 64,
        "tiles": 2, "rank_tiles": 2, "index_tiles": 2}  # fmt: skip
NARROW = "narrow.safetensors"


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

    def step(self, ids: torch.Tensor, learned: torch.Tensor, share: float, elapsed: float) -> None:
        length = ids.shape[1]
        if length not in self.by_length:
            self.by_length[length] = Step(self.model, self.indexers, self.masters, len(ids), length, self.pool)
        self.masters.set_rate(share)
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


def train(model: Any, corpus: Path, seconds: float, width: int, times: float = 1.0) -> dict[str, Any]:
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
        training.step(*next(source), times * rate(elapsed / seconds), elapsed)
    model.eval()
    answers, indexer = training.means
    return {"steps": training.steps, "seconds": seconds, "loss": answers, "indexer_loss": indexer}


def kept(model: Any) -> dict[str, torch.Tensor]:
    """The narrow model's own weights: the routed experts come from a seed."""
    own = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {name: value.detach() for name, value in own.items() if "experts." not in name or "shared" in name}


def resumed(model: Any, file: Path) -> int:
    """Take the weights of an earlier run; returns its steps. The optimiser starts from zero."""
    if not file.exists():
        return 0
    own = kept(model)
    with safe_open(str(file), "pt") as weights:
        names = weights.keys()  # no mapping
        for name in names:
            own[name].copy_(weights.get_tensor(name))
        return int(weights.metadata()["steps"])


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Make the tiny DeepSeek-V4.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rate", type=float, default=1.0, help="learning rates, times this")
    parser.add_argument("--narrow", action="store_true", help="write the narrow model alone")
    parser.add_argument("--tiny", action="store_true", help="widths for a rehearsal on the CPU; no kernel takes them")
    return parser.parse_args()


def main() -> None:
    options = parsed()
    shape = replace(Shape(heads=options.heads), **TINY) if options.tiny else Shape(heads=options.heads)
    narrow = shape.narrow()
    torch.manual_seed(SEED)
    begun = time.monotonic()
    # bfloat16 throughout, as the engine computes; processors without it would take minutes a step
    dtype = torch.float32 if options.device == "cpu" else torch.bfloat16
    model = reference.empty(narrow, options.device, dtype)
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)
    initialise(model, narrow)
    before = resumed(model, options.out / NARROW)
    print(f"made in {time.monotonic() - begun:.1f} s", flush=True)
    story = train(model, options.corpus, options.seconds, narrow.hidden, options.rate) if options.seconds else {}
    story = {"steps": before + int(story.pop("steps", 0)), **story}
    if options.corpus:
        story["right"] = right_answers(model, options.corpus)
        print(json.dumps(story), flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    weights = {name: value.contiguous().cpu() for name, value in kept(model).items() if "inv_freq" not in name}
    save_file(weights, str(options.out / NARROW), {"steps": str(story["steps"])})
    if not options.narrow:
        size = checkpoint.write(shape, widened(shape, kept(model)), options.tokenizer, options.out, options.device)
        (options.out / "training.json").write_text(json.dumps(story))
        print(f"{options.out}: {size / 1e9:.2f} GB, {time.monotonic() - begun:.1f} s in all", flush=True)


if __name__ == "__main__":
    main()
