"""Teacher forcing through the engine's own decode: a logit processor that keeps each distribution and forces the next token.

A request's `custom_params`: `tokens`, what is to be written, and `file`, where float32 log-probabilities
[len(tokens), vocabulary] go as a .npy file once the last one is computed. The first row comes from prefill, the others
from decode. SGLang calls a processor once a request and step, also with overlapped scheduling.
"""

from __future__ import annotations

import os
from typing import Any

import numpy
import torch
from sglang.srt.sampling.custom_logit_processor import CustomLogitProcessor

_rows: dict[str, list[torch.Tensor]] = {}


class ForceTokens(CustomLogitProcessor):
    def __call__(self, logits: torch.Tensor, custom_param_list: list[dict[str, Any]] | None = None) -> torch.Tensor:
        for row, asked in enumerate(custom_param_list or ()):
            if asked and "tokens" in asked:
                force(logits, row, asked["tokens"], asked["file"])
        return logits


def force(logits: torch.Tensor, row: int, tokens: list[int], file: str) -> None:
    kept = _rows.setdefault(file, [])
    if len(kept) >= len(tokens):  # a step that overlapped scheduling had begun before the request ended
        return
    token = tokens[len(kept)]
    kept.append(torch.log_softmax(logits[row].float(), dim=-1))
    logits[row] = float("-inf")
    logits[row, token] = 0.0
    if len(kept) == len(tokens):
        draft = f"{file}.tmp.npy"
        numpy.save(draft, torch.stack(kept).cpu().numpy())
        os.replace(draft, file)
        kept[:] = [kept[0][:0]] * len(kept)  # frees the card's memory, keeps the count
