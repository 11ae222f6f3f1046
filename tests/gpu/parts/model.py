"""Part `model`: the tiny DeepSeek-V4 is made and trained on the card; each further run trains it on."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from gpu.record import Part
from gpu.servers import MODEL, PYTHON, ROOT, WORK

CORPUS = ROOT / "ring/corpus.npz"
TOKENIZER = ROOT / "venvs/appliance/share/dsv4-pd/demo/model"
SECONDS = float(os.environ.get("RING_TRAIN_SECONDS", "300"))
HEADS = os.environ.get("RING_HEADS", "16")


def main() -> int:
    with Part("model") as part:
        WORK.mkdir(parents=True, exist_ok=True)
        trained = part.expect(make(part, SECONDS) == 0, "the model is made and trained")
        # The other parts need some model of this shape; without training its answers mean nothing.
        if not trained and not part.expect(make(part, 0) == 0, "a random model is made"):
            return 1
        story = json.loads((MODEL / "training.json").read_text())
        part.line("model", heads=int(HEADS), bytes=size(MODEL), **story)
    return 0 if not part.failures else 1


def make(part: Part, seconds: float) -> int:
    """Exit status of the training; its progress becomes lines of the part."""
    log = WORK / "train.log"
    command = [PYTHON, "-m", "gpu.model.train", MODEL, "--corpus", CORPUS, "--tokenizer", TOKENIZER,
               "--seconds", seconds, "--heads", HEADS]  # fmt: skip
    with log.open("w") as out:
        done = subprocess.run([str(word) for word in command], stdout=out, stderr=out, check=False)
    lines = log.read_text().splitlines()
    steps = [json.loads(line) for line in lines if line.startswith("{")]
    told = [step for step in steps if "step" not in step]
    taken = [step for step in steps if "step" in step]
    for step in told + taken[:: max(1, len(taken) // 20)] + taken[-1:]:
        part.line("training", **step)
    if done.returncode:
        part.line("log", lines=lines[-25:])
    return done.returncode


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())
