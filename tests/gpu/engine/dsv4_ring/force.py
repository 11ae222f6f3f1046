"""Teacher forcing through the engine's own decode: keeps each distribution and forces the next token.

A request's `custom_params`: `tokens`, what is to be written, and `file`, where float32 log-probabilities
[len(tokens), vocabulary] go as a .npy file once the last one is computed. The first row comes from prefill, the others
from decode. Needs `--disable-overlap-schedule`: only then has a request all its tokens when the next one is computed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy
import torch
from sglang.srt.sampling.custom_logit_processor import CustomLogitProcessor

_rows: dict[str, list[torch.Tensor]] = {}


class ForceTokens(CustomLogitProcessor):
    def __call__(self, logits: torch.Tensor, custom_param_list: list[dict[str, Any]] | None = None) -> torch.Tensor:
        for row, asked in enumerate(custom_param_list or ()):
            if asked and "tokens" in asked:
                force(logits, row, asked)
        return logits


def force(logits: torch.Tensor, row: int, asked: dict[str, Any]) -> None:
    tokens, file, step = asked["tokens"], asked["file"], len(asked["__req__"].output_ids)
    if step >= len(tokens):
        return
    kept = _rows.setdefault(file, [])
    kept[step:] = [
        torch.log_softmax(logits[row].float(), dim=-1)
    ]  # a prompt's middle chunks are sampled too, and dropped
    logits[row] = float("-inf")
    logits[row, tokens[step]] = 0.0
    if step == len(tokens) - 1:
        draft = f"{file}.{os.getpid()}.npy"  # every rank of a server writes, and all have the same distributions
        numpy.save(draft, torch.stack(kept).cpu().numpy())
        Path(draft).replace(file)
        del _rows[file]
