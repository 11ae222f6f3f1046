"""The oracle's distributions for every case, one .npy a request: python -m gpu.model.oracle MODEL CORPUS OUT [DTYPE]

Also how often the oracle's own most likely token is the corpus' answer: whether the model learned anything.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy
import torch

from gpu.cases import CASES
from gpu.model import reference


def main() -> None:
    folder, corpus, out = (Path(word) for word in sys.argv[1:4])
    dtype = getattr(torch, sys.argv[4] if len(sys.argv) > 4 else "float32")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    begun = time.monotonic()
    model = reference.load(folder, device, dtype)
    model.config._experts_implementation = "eager"  # a loop over experts: plain products in the oracle's own type
    print(json.dumps({"loaded_s": round(time.monotonic() - begun, 1)}), flush=True)
    known(model, corpus, device)
    for case in CASES:
        started = time.monotonic()
        target = out / case.name.replace(" ", "")
        target.mkdir(parents=True, exist_ok=True)
        for number, (prompt, tokens) in enumerate(case.prompts(corpus)[: case.judged]):
            # After the prompt's last token, and after each forced one but the last.
            rows = reference.log_probabilities(model, prompt + tokens[:-1], len(tokens))
            numpy.save(target / f"{number:03d}.npy", rows.numpy())
        print(json.dumps({"case": case.name, "seconds": round(time.monotonic() - started, 1)}), flush=True)


@torch.no_grad()
def known(model: object, corpus: Path, device: str) -> None:
    """Answers of the corpus' last rows that are the model's own first choice, by length of row."""
    data = numpy.load(corpus)
    for name in sorted(name for name in data.files if name.startswith("tokens_")):
        length = name.removeprefix("tokens_")
        right = total = 0
        for tokens, answers in zip(data[name][-3:], data[f"answers_{length}"][-3:], strict=True):
            rows = reference.log_probabilities(model, tokens.tolist(), len(tokens))
            wanted = numpy.nonzero(answers[1:])[0]
            chosen = rows.argmax(-1).numpy()[:-1]
            right += int((chosen[wanted] == tokens[1:][wanted]).sum())
            total += len(wanted)
        print(json.dumps({"answers_right": right, "of": total, "row_tokens": int(length)}), flush=True)


if __name__ == "__main__":
    main()
