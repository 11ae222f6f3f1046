"""Kernels are compiled at run time: compiler, ninja and nvcc must be installed."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, fail, ok
from dsv4_pd.plan.around.surroundings import TOOLS
from dsv4_pd.plan.situation import Situation


def _run(s: Situation) -> Finding:
    missing = [name for name in TOOLS if s.around.tools.get(name) is False]
    if missing:
        return fail(
            f"not on the path: {', '.join(missing)}",
            "use the image, or install gcc, ninja-build and the CUDA 13 toolkit and put nvcc on the PATH",
        )
    return ok(", ".join(TOOLS))


CHECK = Check(
    name="toolchain",
    place=70,
    symptom='"ninja: not found", "Python.h" or nvcc errors at the first request, long after the start',
    why="FlashInfer, TVM-FFI and Triton build kernels on first use; a missing tool shows only then.",
    source="sglang#1067, #5002; vllm#49497; theroyallab/tabbyAPI PR#456",
    run=_run,
    expected="the compilers that build kernels at run time",
    fatal=True,
)
