"""The entry point that SGLang calls in each of its processes."""

from __future__ import annotations

import importlib
import os
import sys

from dsv4_hooks.record import FOLDER_VARIABLE, Record, folder_of

from dsv4_cpu_pd.settings import Settings, read_settings

PLUGIN = "dsv4-cpu"


def register() -> None:
    """All patches or none that counts: a pair on a CPU without them serves nothing, so failing ends the process."""
    record = Record(PLUGIN, folder_of(os.environ.get(FOLDER_VARIABLE)))
    try:
        install(record, read_settings())
    except Exception as problem:  # SGLang would log it and serve on
        record.fail(problem)
        # SystemExit is no Exception: it passes through SGLang's own handler
        sys.exit(f"{PLUGIN} plugin: {problem}: this process cannot serve on a CPU and ends")
    record.succeed()


def install(record: Record, settings: Settings) -> None:
    from dsv4_cpu_pd import corrupt, host_memory, rope

    refuse_gpu()
    rope.install(record)
    api = importlib.import_module("nixl._api")
    host_memory.install(record, api)
    if settings.corrupt:
        corrupt.install(record, api.nixl_agent)


def refuse_gpu() -> None:
    import torch

    if torch.cuda.is_available():
        raise RuntimeError("a GPU is visible, and SGLang would take CUDA paths: set CUDA_VISIBLE_DEVICES to nothing")
