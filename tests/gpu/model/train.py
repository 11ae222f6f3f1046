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

from gpu.model import checkpoint, experts, reference
from gpu.model.shape import Shape

SEED = 20_261_130
BATCH_TOKENS = 8192
# How often a batch has rows of this length; the longest ones cost the most and teach the indexer.
MIX = {512: 0.6, 1024: 0.28, 4096: 0.12}
HELD_OUT = 64  # rows of each length that no batch has: what servers and oracle are asked
WARM_UP = 0.05  # of the time
MATRIX_RATE, OTHER_RATE = 4e-4, 2e-3  # at a width of 4096
INDEXER_WEIGHT = 0.3
TINY = {"hidden": 256, "heads": 8, "head_dim": 64, "rope_dim": 16, "q_rank": 128, "o_rank": 64, "index_heads": 4,
        "index_dim": 32, "experts": 16, "expert_width": 64}  # fmt: skip


def initialise(model: Any, shape: Shape) -> None:
    """In place. Streams start almost apart, mixing weights almost constant: the usual 0.02 there is mostly noise."""
    generator = torch.Generator(device="cpu").manual_seed(SEED)
    for name, value in [*model.named_parameters(), *model.named_buffers()]:
        if "experts." in name and "shared" not in name or "inv_freq" in name:
            continue
        value.data.copy_(first_value(name, value, shape, generator))
    for layer in range(shape.layers):
        block = model.model.layers[layer].mlp.experts
        up, down = experts.unpacked(shape, layer, str(value.device), block.gate_up_proj.dtype)
        block.gate_up_proj.data.copy_(up)
        block.down_proj.data.copy_(down)


def first_value(name: str, value: torch.Tensor, shape: Shape, generator: torch.Generator) -> torch.Tensor:
    if name.endswith("tid2eid"):
        token, place = torch.arange(shape.vocabulary)[:, None], torch.arange(shape.active)[None, :]
        return (token * 7 + place * 41 + len(name)) % shape.experts
    if name.endswith(("norm.weight", "_scale", ".scale")):
        return torch.ones(value.shape)
    if name.endswith("_hc.base"):
        streams = shape.streams
        base = torch.zeros(2 * streams + streams * streams)
        base[2 * streams :] = 2.0 * torch.eye(streams).flatten()
        base[:streams] = 0.5 * torch.arange(streams)
        return base
    if name.endswith(("sinks", "base", "position_bias", "bias")):
        return torch.randn(value.shape, generator=generator) * 0.1
    spread = 0.002 if name.endswith("fn") else value.shape[-1] ** -0.5
    return torch.randn(value.shape, generator=generator) * (0.5 if "embed_tokens" in name else spread)


class Indexers:
    """Hooks that teach the indexer, which no gradient of the answers reaches: its scores follow attention's own weights."""

    def __init__(self, model: Any) -> None:
        self.scores: dict[int, torch.Tensor] = {}
        self.losses: list[torch.Tensor] = []
        for number, layer in enumerate(model.model.layers):
            compressor = layer.self_attn.compressor
            if hasattr(compressor, "indexer"):
                compressor.indexer.index_topk = 10**9  # all are chosen while it learns
                compressor.indexer.scorer.register_forward_hook(self.keep(number))
                layer.self_attn.register_forward_hook(self.compare(number))

    def keep(self, number: int) -> Any:
        def hook(_module: Any, _inputs: Any, scores: torch.Tensor) -> None:
            self.scores[number] = scores  # [B, S, T]

        return hook

    def compare(self, number: int) -> Any:
        def hook(_module: Any, _inputs: Any, output: tuple[torch.Tensor, torch.Tensor]) -> None:
            scores = self.scores.pop(number)
            rows, entries = scores.shape[1], scores.shape[2]
            target = output[1][..., -entries:].detach().float().sum(dim=1)  # [B, S, T], summed over heads
            seen = (torch.arange(rows, device=scores.device)[:, None] + 1) // 4 > torch.arange(
                entries, device=scores.device
            )
            target = target / target.sum(-1, keepdim=True).clamp(min=1e-6)
            own = torch.log_softmax(scores.float().masked_fill(~seen, -1e9), dim=-1)
            self.losses.append(-(target * own).sum(-1)[:, 256::7].mean())

        return hook

    def loss(self) -> torch.Tensor:
        total = torch.stack(self.losses).mean()
        self.losses.clear()
        return total


def batches(corpus: Path, device: str) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Token ids [rows, length] and what is learned of them, forever."""
    data, rng = numpy.load(corpus), numpy.random.default_rng(SEED)
    lengths = {length: data[f"tokens_{length}"].astype(numpy.int64) for length in MIX}
    answers = {length: data[f"answers_{length}"].astype(bool) for length in MIX}
    while True:
        length = int(rng.choice(list(MIX), p=list(MIX.values())))
        rows = rng.integers(0, len(lengths[length]) - HELD_OUT, max(1, BATCH_TOKENS // length))
        yield torch.from_numpy(lengths[length][rows]).to(device), torch.from_numpy(answers[length][rows]).to(device)


class Masters:
    """AdamW over float32 copies of bfloat16 parameters."""

    def __init__(self, model: Any, width: int) -> None:
        self.live = [p for n, p in model.named_parameters() if p.requires_grad]
        self.copies = [p.detach().float().clone() for p in self.live]
        matrix = [c for c in self.copies if c.ndim == 2 and min(c.shape) > 64]
        other = [c for c in self.copies if not any(c is m for m in matrix)]
        rate = MATRIX_RATE * (4096 / width) ** 0.5
        groups = [{"params": matrix, "lr": rate, "top": rate}, {"params": other, "lr": OTHER_RATE, "top": OTHER_RATE}]
        self.adam = torch.optim.AdamW(groups, betas=(0.9, 0.97), weight_decay=0.01)

    def step(self, share: float) -> float:
        """`share`: of the rate. Returns the gradient's norm."""
        for live, copy in zip(self.live, self.copies, strict=True):
            copy.grad = None if live.grad is None else live.grad.float()
            live.grad = None
        norm = torch.nn.utils.clip_grad_norm_(self.copies, 1.0)
        for group in self.adam.param_groups:
            group["lr"] = group["top"] * share
        self.adam.step()
        for live, copy in zip(self.live, self.copies, strict=True):
            live.data.copy_(copy)
        return float(norm)


def rate(done: float) -> float:
    """Share of the peak rate when `done` of the time is spent: up, flat, down to nearly nothing."""
    return min(1.0, done / WARM_UP + 0.02, max(0.02, (1 - done) / 0.5))


def train(model: Any, corpus: Path, seconds: float, width: int, log: Path | None) -> dict[str, Any]:
    device = str(next(model.parameters()).device)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("experts." not in name or "shared" in name)
    indexers, masters, source = Indexers(model), Masters(model, width), batches(corpus, device)
    model.train()
    begun, steps, means, said = time.monotonic(), 0, [math.nan, math.nan], 0.0
    while (elapsed := time.monotonic() - begun) < seconds:
        ids, learned = next(source)
        hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1]
        wanted = learned[:, 1:]
        logits = model.lm_head(hidden[wanted]).float()
        answer_loss = torch.nn.functional.cross_entropy(logits, ids[:, 1:][wanted])
        index_loss = indexers.loss()
        (answer_loss + INDEXER_WEIGHT * index_loss).backward()
        masters.step(rate(elapsed / seconds))
        steps += 1
        found = [answer_loss.item(), index_loss.item()]
        means = found if steps == 1 else [0.95 * old + 0.05 * new for old, new in zip(means, found, strict=True)]
        if elapsed - said >= 5 or steps == 1:
            said = elapsed
            line = {"step": steps, "seconds": round(elapsed, 1), "answers": means[0], "indexer": means[1]}
            print(json.dumps(line), flush=True)
    model.eval()
    return {"steps": steps, "seconds": seconds, "loss": means[0], "indexer_loss": means[1]}


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the tiny DeepSeek-V4.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="widths for a rehearsal on the CPU; no kernel takes them")
    options = parser.parse_args()
    shape = replace(Shape(heads=options.heads), **TINY) if options.tiny else Shape(heads=options.heads)
    torch.manual_seed(SEED)
    begun = time.monotonic()
    # bfloat16 throughout, as the engine computes; processors without it would take minutes a step
    dtype = torch.float32 if options.device == "cpu" else torch.bfloat16
    model = reference.empty(shape, options.device, dtype)
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)
    initialise(model, shape)
    print(f"made in {time.monotonic() - begun:.1f} s", flush=True)
    story = train(model, options.corpus, options.seconds, shape.hidden, None) if options.seconds else {"steps": 0}
    weights = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    size = checkpoint.write(
        shape, {k: v.detach() for k, v in weights.items()}, options.tokenizer, options.out, options.device
    )
    (options.out / "training.json").write_text(json.dumps(story))
    print(f"{options.out}: {size / 1e9:.2f} GB, {story}, {time.monotonic() - begun:.1f} s in all", flush=True)


if __name__ == "__main__":
    main()
