"""One training step: an optimiser over float32 copies, and the whole step as a CUDA graph."""

from __future__ import annotations

import json
from typing import Any

import torch

from gpu.model.indexers import Indexers

MATRIX_RATE, OTHER_RATE = 2.4e-4, 8e-4  # at a width of 4096; 2.5 times as much learned to recall half as well
INDEXER_WEIGHT = 0.3


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
