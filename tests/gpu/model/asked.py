"""What the model gets right of the rows that no batch had."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import torch

from gpu.model.steps import window_mask

HELD_OUT = 64  # the last rows of each length, which no batch has
AT_ONCE = {512: 16, 1024: 8, 4096: 2}  # rows of one forward, by length


@torch.no_grad()
def right_answers(model: Any, corpus: Path, rows: int = HELD_OUT) -> dict[str, float]:
    """Share of the held-out answers' tokens that come first in the model's own distribution, by length of row.

    Rows of 512 tokens hold chat samples and facts, longer ones facts alone. The indexer chooses as in the engine.
    """
    data = numpy.load(corpus)
    device, dtype = next(model.parameters()).device, next(model.parameters()).dtype
    chosen = [(module, module.index_topk) for module in model.modules() if hasattr(module, "index_topk")]
    for module, _ in chosen:
        module.index_topk = model.config.index_topk
    found: dict[str, float] = {}
    for length, at_once in AT_ONCE.items():
        ids = torch.from_numpy(data[f"tokens_{length}"][-rows:].astype(numpy.int64))
        wanted = torch.from_numpy(data[f"answers_{length}"][-rows:].astype(bool))[:, 1:]
        mask = window_mask(length, model.config.sliding_window, device, dtype)
        right = [first_choices(model, part.to(device), mask).cpu() == part[:, 1:] for part in ids.split(at_once)]
        found[str(length)] = round(float(torch.cat(right)[wanted].float().mean()), 4)
    for module, count in chosen:
        module.index_topk = count
    return found


def first_choices(model: Any, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """int64 [rows, length - 1]: the likeliest next token at each place but the last."""
    masks = {"sliding_attention": mask.expand(len(ids), -1, -1, -1)}
    hidden = model.model(input_ids=ids, attention_mask=masks, use_cache=False).last_hidden_state
    return torch.cat([model.lm_head(part).argmax(-1) for part in hidden[:, :-1].split(512, dim=1)], dim=1)
