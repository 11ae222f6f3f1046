"""Kernels run on the GPU where there is one, and in Triton's interpreter elsewhere. The summary says which."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

HAS_TORCH = importlib.util.find_spec("torch") is not None
if HAS_TORCH:
    import torch

    ON_GPU = torch.cuda.is_available()
    if not ON_GPU:
        os.environ.setdefault(
            "TRITON_INTERPRET", "1"
        )  # before the first import of a kernel: it decides what @jit makes
else:
    # the control plane's environment: only the test that starts the engine's own processes can run here
    collect_ignore = [path.name for path in Path(__file__).parent.glob("test_*.py") if path.name != "test_engine.py"]


NO_INDEX = 0x7F7F7F7F  # nor a count, nor a length
E4M3_NAN = 0xFF


def poison(tensor: torch.Tensor) -> torch.Tensor:
    """As bad as fresh memory may be; a tensor on `meta` has none."""
    if tensor.device.type == "meta" or tensor.numel() == 0:
        return tensor
    if tensor.element_size() == 1:
        tensor.view(torch.uint8).fill_(E4M3_NAN)
    else:
        tensor.fill_(float("nan") if tensor.is_floating_point() else NO_INDEX)
    return tensor


@pytest.fixture(autouse=True)
def poisoned_scratch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever an op allocates without a value arrives full of NaN: a kernel that reads unwritten scratch is seen."""
    if not HAS_TORCH:
        return
    for name in ("empty", "empty_like", "empty_strided"):
        make = getattr(torch, name)
        monkeypatch.setattr(torch, name, lambda *args, make=make, **kwargs: poison(make(*args, **kwargs)))


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator(device="cuda" if ON_GPU else "cpu").manual_seed(20_240_229)


@pytest.fixture
def tolerance() -> float:
    """bf16 weights and a bf16 result; the interpreter cuts bf16 off where a GPU rounds."""
    return 5e-3 if ON_GPU else 1e-2


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if HAS_TORCH:
        where = torch.cuda.get_device_name() if ON_GPU else "Triton's interpreter (no GPU here: ring 2 not run)"
        terminalreporter.write_line(f"kernels ran on: {where}")
