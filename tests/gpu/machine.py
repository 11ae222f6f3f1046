"""What ran where: the card, its driver, and the versions that decide how a kernel is made. Standard library alone."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
from typing import Any

QUERY = "index,name,memory.total,driver_version,compute_cap"
PACKAGES = (
    "sglang",
    "torch",
    "triton",
    "tilelang",
    "flashinfer-python",
    "sglang-kernel",
    "transformers",
    "nixl-cu13",
    "nvidia-nccl-cu13",
)


def text(*command: str) -> str:
    """Standard output of a command; empty where it is not there or fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def cards(listing: str) -> list[dict[str, str]]:
    """From `nvidia-smi --query-gpu=... --format=csv,noheader`.

    >>> cards("0, NVIDIA H200, 143771 MiB, 580.159.04, 9.0")[0]["name"]
    'NVIDIA H200'
    """
    rows = [[cell.strip() for cell in line.split(",")] for line in listing.splitlines() if line.strip()]
    return [dict(zip(("index", "name", "memory", "driver", "capability"), row, strict=True)) for row in rows]


def version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


def facts() -> dict[str, Any]:
    """One JSON object; `nvcc` is the compiler's release, which JIT caches are keyed by."""
    smi = shutil.which("nvidia-smi") or "/usr/bin/nvidia-smi"
    release = re.search(r"release (\S+?),", text("nvcc", "--version"))
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cards": cards(text(smi, f"--query-gpu={QUERY}", "--format=csv,noheader")),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "nvcc": release[1] if release else "absent",
        "python": platform.python_version(),
        "versions": {name: version(name) for name in PACKAGES},
    }


def memory_used() -> list[int]:
    """MiB in use on each card."""
    smi = shutil.which("nvidia-smi") or "/usr/bin/nvidia-smi"
    return [int(line) for line in text(smi, "--query-gpu=memory.used", "--format=csv,noheader,nounits").split()]
