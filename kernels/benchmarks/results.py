"""JSON lines: first the machine and versions, then one line a measurement. A failed gate writes no number."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
from pathlib import Path
from typing import Any

import torch
import triton

from benchmarks.timing import memory_gb_per_s

PEERS = ("sglang", "sglang-kernel", "sgl-deep-gemm", "tilelang")


class GateError(AssertionError):
    """A result outside its tolerance: there is nothing to time."""


class Results:
    """alone: no peers, and our own kernels under the name that says how they were built."""

    def __init__(self, path: Path, run: str, *, alone: bool = False) -> None:
        self.file = path.open("w")
        self.run = run
        self.alone = alone
        self.ours = "dsv4-sm120-lowering" if alone else "dsv4"
        self.gb_per_s = memory_gb_per_s()
        self.write(op="machine", **machine(), gb_per_s=round(self.gb_per_s))

    def write(self, **values: Any) -> None:
        rounded = {name: round(value, 2) if name == "us" else value for name, value in values.items()}
        line = json.dumps({"run": self.run} | rounded)
        self.file.write(line + "\n")
        self.file.flush()
        print(line, flush=True)

    def floor_us(self, size: float) -> float:
        """Time to move `size` bytes once at the bandwidth of this run."""
        return size / self.gb_per_s / 1000


def gate(error: float, tolerance: float, what: str) -> float:
    """NaN fails."""
    if not error < tolerance:
        raise GateError(f"{what}: relative error {error}, expected below {tolerance}")
    return error


def version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def machine() -> dict[str, Any]:
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    driver = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()
    return {
        "gpu": torch.cuda.get_device_name(),
        "driver": driver,
        "cuda": torch.version.cuda,
        "torch": torch.__version__,
        "triton": triton.__version__,
        "peers": {name: version(name) for name in PEERS},
    }
