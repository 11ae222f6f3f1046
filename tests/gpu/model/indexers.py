"""The indexer's own lesson: no gradient of the answers reaches it."""

from __future__ import annotations

from typing import Any

import torch


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
