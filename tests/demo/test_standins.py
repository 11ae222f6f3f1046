"""The importable names of triton and torchvision, in a process of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

STANDINS = Path(__file__).resolve().parents[2] / "demo/standins"


def run(program: str) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": str(STANDINS), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-S", "-c", program]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "program",
    [
        "import triton\n@triton.jit\ndef f(x): return x\nassert f(3) == 3",
        "import triton\n@triton.autotune(configs=[triton.Config({}, num_warps=4)], key=['n'])\n@triton.jit\n"
        "def f(x): return x\nassert f(3) == 3",
        "import triton.language as tl\ndef f(n: tl.constexpr, t: tl.tensor | None = None): return n\nassert f(1) == 1",
        "from triton.runtime.jit import JITFunction, TensorWrapper\nassert not isinstance(1, JITFunction)",
        "from triton.compiler.compiler import CompiledKernel\nclass Mine(CompiledKernel):\n    pass\nMine()",
        "import triton.language.extra.cuda.libdevice as lib\nlib.tanh",
        "from torchvision.transforms import InterpolationMode as Mode\n{Mode.NEAREST: Mode.BICUBIC}",
        "import torchvision.transforms.functional as f\nf.resize",
    ],
)
def test_what_an_import_needs_works(program: str) -> None:
    done = run(program)
    assert done.returncode == 0, done.stderr


def test_an_absent_driver_reads_as_no_gpu() -> None:
    """SGLang asks triton for the active driver's target, and takes an AttributeError for "cpu"."""
    done = run("import triton\ntriton.runtime.driver.active.get_current_target().backend")
    assert "AttributeError" in done.stderr


@pytest.mark.parametrize("use", ["for _ in tl.arange: pass", "bool(tl.zeros)", "int(tl.zeros)"])
def test_a_result_is_refused(use: str) -> None:
    done = run(f"import triton.language as tl\n{use}")
    assert "StandinUsed: triton.language." in done.stderr


def test_other_modules_are_left_alone() -> None:
    done = run("import triton\nimport triton_other")
    assert "ModuleNotFoundError: No module named 'triton_other'" in done.stderr
