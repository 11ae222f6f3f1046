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
# Rows of a batch by their length: attention's weights of the longest take as much memory as all else.
ROWS = {512: 16, 1024: 8, 4096: 1}
# How often a batch has rows of this length; the longest ones teach the indexer.
MIX = {512: 0.6, 1024: 0.25, 4096: 0.15}
HELD_OUT = 64  # rows of each length that no batch has: what servers and oracle are asked
PROFILED = 1  # the step that is profiled: kernels are made by then, and it is not yet a graph
WARM_UP = 0.05  # of the time
MATRIX_RATE, OTHER_RATE = 6e-4, 2e-3  # at a width of 4096
INDEXER_WEIGHT = 0.3
TINY = {"hidden": 256, "heads": 8, "head_dim": 64, "rope_dim": 16, "q_rank": 128, "o_rank": 64, "index_heads": 4,
        "index_dim": 32, "experts": 16, "expert_width": 64}  # fmt: skip


def initialise(model: Any, shape: Shape) -> None:
    """In place. Streams start almost apart, mixing weights almost constant: the usual 0.02 there is mostly noise."""
    generator = torch.Generator(device="cpu").manual_seed(SEED)
    for name, value in [*model.named_parameters(), *model.named_buffers()]:
        if ("experts." in name and "shared" not in name) or "inv_freq" in name:
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
    if name.endswith("position_bias"):
        return by_slot(*value.shape) if value.shape[0] == 4 else torch.randn(value.shape, generator=generator) * 0.1
    if name.endswith(("sinks", "base", "bias")):
        return torch.randn(value.shape, generator=generator) * 0.1
    spread = 0.002 if name.endswith("fn") else value.shape[-1] ** -0.5
    return torch.randn(value.shape, generator=generator) * (0.5 if "embed_tokens" in name else spread)


def by_slot(ratio: int, width: int) -> torch.Tensor:
    """[4, 2 x dim]: each eighth of an entry's dimensions starts on one of the eight tokens that the entry is made of.

    The first half of the width belongs to the four tokens before, the second to the entry's own four. From an even
    start an entry is an average of its tokens, and most of a short training passes before that is unlearned.
    """
    dim = width // 2
    share = torch.arange(dim) * 2 * ratio // dim  # [dim]: the slot that a dimension starts on
    bias = torch.zeros(ratio, width)
    for slot in range(2 * ratio):
        half = slice(0, dim) if slot < ratio else slice(dim, width)
        bias[slot % ratio, half] = torch.where(share == slot, 5.0, 0.0)
    return bias


class Indexers:
    """Hooks that teach the indexer, which no gradient of the answers reaches: it follows attention's own weights."""

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
        rows = rng.integers(0, len(lengths[length]) - HELD_OUT, ROWS[length])
        yield torch.from_numpy(lengths[length][rows]).to(device), torch.from_numpy(answers[length][rows]).to(device)


class Masters:
    """AdamW over float32 copies of the live parameters; every step is the same kernels, so that a graph can hold it."""

    def __init__(self, model: Any, width: int) -> None:
        self.live = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.copies = [parameter.detach().float().clone() for parameter in self.live]
        for copy in self.copies:
            copy.grad = torch.zeros_like(copy)
        matrix = [copy for copy in self.copies if copy.ndim == 2 and min(copy.shape) > 64]
        known = {id(copy) for copy in matrix}
        other = [copy for copy in self.copies if id(copy) not in known]
        on_card = self.copies[0].is_cuda
        self.tops = [MATRIX_RATE * (4096 / width) ** 0.5, OTHER_RATE]
        self.rates = [torch.tensor(top, device=self.copies[0].device) if on_card else top for top in self.tops]
        groups = [{"params": group, "lr": rate} for group, rate in zip((matrix, other), self.rates, strict=True)]
        self.adam = torch.optim.AdamW(groups, betas=(0.9, 0.97), weight_decay=0.01, capturable=on_card)

    def set_rate(self, share: float) -> None:
        for group, rate_, top in zip(self.adam.param_groups, self.rates, self.tops, strict=True):
            if isinstance(rate_, torch.Tensor):
                rate_.fill_(top * share)
            else:
                group["lr"] = top * share

    def step(self) -> None:
        given = [(live, copy) for live, copy in zip(self.live, self.copies, strict=True) if live.grad is not None]
        torch._foreach_copy_([copy.grad for _, copy in given], [live.grad for live, _ in given])
        torch.nn.utils.clip_grad_norm_([copy for _, copy in given], 1.0, foreach=True)
        self.adam.step()
        torch._foreach_copy_([live.data for live, _ in given], [copy for _, copy in given])


class Step:
    """One training step for rows of one length; a CUDA graph from the third on, where the card can hold it."""

    def __init__(self, model: Any, indexers: Indexers, masters: Masters, rows: int, length: int, pool: Any) -> None:
        self.model, self.indexers, self.masters, self.pool = model, indexers, masters, pool
        device = next(model.parameters()).device
        self.ids = torch.zeros(rows, length, dtype=torch.long, device=device)
        self.learned = torch.zeros(rows, length, dtype=torch.bool, device=device)
        mask = window_mask(length, model.config.sliding_window, device, next(model.parameters()).dtype)
        self.mask = mask.expand(rows, -1, -1, -1)
        self.losses = torch.zeros(2, device=device)
        self.graph: torch.cuda.CUDAGraph | None = None
        self.taken = 0

    def work(self) -> None:
        """Loss, gradients, optimiser: no value leaves the device."""
        for live in self.masters.live:
            live.grad = None
        masks = {"sliding_attention": self.mask}
        hidden = self.model.model(input_ids=self.ids, attention_mask=masks, use_cache=False).last_hidden_state
        logits = self.model.lm_head(hidden[:, :-1]).float().flatten(0, 1)
        each = torch.nn.functional.cross_entropy(logits, self.ids[:, 1:].flatten(), reduction="none")
        wanted = self.learned[:, 1:].flatten().float()
        answers = (each * wanted).sum() / wanted.sum().clamp(min=1)
        index = self.indexers.loss()
        (answers + INDEXER_WEIGHT * index).backward()
        self.masters.step()
        self.losses.copy_(torch.stack((answers.detach(), index.detach())))

    def __call__(self, ids: torch.Tensor, learned: torch.Tensor) -> None:
        self.ids.copy_(ids)
        self.learned.copy_(learned)
        self.taken += 1
        if self.ids.is_cuda and self.graph is None and self.taken == 3:
            self.capture()
        if self.graph is not None:
            self.graph.replay()
        else:
            self.work()

    def capture(self) -> None:
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()  # what the steps before took: the graph has memory of its own
        try:
            stream = torch.cuda.current_stream()
            with torch.cuda.graph(graph, pool=self.pool, stream=stream, capture_error_mode="thread_local"):
                self.work()
        except RuntimeError as error:
            print(json.dumps({"graph": f"none: {str(error)[:300]}"}), flush=True)
            torch.cuda.synchronize()
            self.indexers.losses.clear()
            self.taken = 10**9 if self.taken < 10**9 else self.taken
            return
        self.graph = graph
        print(json.dumps({"graph": list(self.ids.shape)}), flush=True)


def window_mask(length: int, window: int, device: Any, dtype: torch.dtype) -> torch.Tensor:
    """[1, 1, length, length], added to attention's scores: a token and the ones before it within the window."""
    at = torch.arange(length, device=device)
    back = at[:, None] - at[None, :]
    hidden = (back < 0) | (back >= window)
    return torch.zeros(length, length, device=device, dtype=dtype).masked_fill_(hidden, torch.finfo(dtype).min)[
        None, None
    ]


def profiled(step: Step, ids: torch.Tensor, learned: torch.Tensor) -> None:
    """One step under the profiler: which kernels take its time, in ms."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        step(ids, learned)
        torch.cuda.synchronize()
    events = sorted(profile.key_averages(), key=lambda event: -event.self_device_time_total)
    kernels = [[event.key[:80], round(event.self_device_time_total / 1000, 1)] for event in events[:15]]
    total = round(sum(event.self_device_time_total for event in events) / 1000, 1)
    print(json.dumps({"profile": kernels, "of_ms": total, "rows": list(ids.shape)}), flush=True)


def rate(done: float) -> float:
    """Share of the peak rate when `done` of the time is spent: up, flat, down to nearly nothing."""
    return min(1.0, done / WARM_UP + 0.02, max(0.02, (1 - done) / 0.5))


def train(model: Any, corpus: Path, seconds: float, width: int) -> dict[str, Any]:
    device = str(next(model.parameters()).device)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("experts." not in name or "shared" in name)
    indexers, masters, source = Indexers(model), Masters(model, width), batches(corpus, device)
    steps_of: dict[int, Step] = {}
    pool = None
    # The mixing weights' products are float32, long and 24 wide: without TF32 they would take most of a step.
    torch.set_float32_matmul_precision("high")
    if device != "cpu":
        torch.cuda.set_stream(torch.cuda.Stream())  # the default stream cannot be captured
        pool = torch.cuda.graph_pool_handle()
    model.train()
    begun, steps, means, said = time.monotonic(), 0, [math.nan, math.nan], 0.0
    while (elapsed := time.monotonic() - begun) < seconds:
        ids, learned = next(source)
        length = ids.shape[1]
        if length not in steps_of:
            steps_of[length] = Step(model, indexers, masters, len(ids), length, pool)
        masters.set_rate(rate(elapsed / seconds))
        if steps == PROFILED and device != "cpu":
            profiled(steps_of[length], ids, learned)
        else:
            steps_of[length](ids, learned)
        steps += 1
        if steps % 8 == 1:
            found = steps_of[length].losses.tolist()  # waits for the card
            means = found if steps == 1 else [0.8 * old + 0.2 * new for old, new in zip(means, found, strict=True)]
            if elapsed - said >= 5 or steps == 1:
                said = elapsed
                used = torch.cuda.memory_reserved() / 2**30 if pool else 0
                line = {
                    "reserved_gib": round(used, 1),
                    "step": steps,
                    "seconds": round(elapsed, 1),
                    "answers": means[0],
                    "indexer": means[1],
                }
                print(json.dumps(line), flush=True)
    model.eval()
    return {"steps": steps, "seconds": seconds, "loss": means[0], "indexer_loss": means[1]}


def resumed(model: Any, shape: Shape, out: Path) -> int:
    """Take the weights of an earlier run, as they were quantised; returns its steps. The optimiser starts anew."""
    if not (out / "training.json").exists():
        return 0
    own = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    for name, value in checkpoint.dense(out, shape):
        own[name].data.copy_(value)
    story = json.loads((out / "training.json").read_text())
    return int(story["steps"]) + int(story.get("steps_before", 0))


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the tiny DeepSeek-V4.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--resume", action="store_true", help="train on from the checkpoint in OUT, where there is one")
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
    before = resumed(model, shape, options.out) if options.resume else 0
    print(f"made in {time.monotonic() - begun:.1f} s", flush=True)
    story = train(model, options.corpus, options.seconds, shape.hidden) if options.seconds else {"steps": 0}
    story["steps_before"] = before
    weights = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    size = checkpoint.write(
        shape, {k: v.detach() for k, v in weights.items()}, options.tokenizer, options.out, options.device
    )
    (options.out / "training.json").write_text(json.dumps(story))
    print(f"{options.out}: {size / 1e9:.2f} GB, {story}, {time.monotonic() - begun:.1f} s in all", flush=True)


if __name__ == "__main__":
    main()
