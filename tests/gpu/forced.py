"""Teacher-forced requests to a server: what the engine's prefill and decode give for tokens that we choose."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy

from gpu import client
from gpu.cases import Case
from gpu.servers import Server


def processor() -> str:
    """What SGLang expects of a client for `dsv4_ring.force.ForceTokens`."""
    by_name = b"cdsv4_ring.force\nForceTokens\n."
    return json.dumps({"callable": by_name.hex()})


def distributions(server: Server, case: Case, corpus: Path, folder: Path) -> list[numpy.ndarray]:
    """Log-probabilities [steps, vocabulary] of each request of the case, sent at once to an emptied prefix cache."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    client.call(f"{server.url}/flush_cache", {}, timeout=30)
    asked = case.prompts(corpus)
    files = [folder / f"{number:03d}.npy" for number in range(len(asked))]
    body = {
        "input_ids": [prompt for prompt, _ in asked],
        "sampling_params": [
            {
                "temperature": 0,
                "max_new_tokens": len(tokens),
                "ignore_eos": True,
                "custom_params": {"tokens": tokens, "file": str(file)},
            }
            for (_, tokens), file in zip(asked, files, strict=True)
        ],
        "custom_logit_processor": [processor()] * len(asked),
    }
    answers = client.post(f"{server.url}/generate", body)
    for (_, tokens), answer in zip(asked, answers, strict=True):
        if answer["output_ids"] != tokens:
            raise RuntimeError(f"{server.name}: the engine wrote {answer['output_ids'][:8]}, forced were {tokens[:8]}")
    return [numpy.load(file) for file in files]
