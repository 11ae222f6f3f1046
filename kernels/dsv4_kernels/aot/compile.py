"""Compile one kernel for a compute capability and read what ptxas says of it."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from dsv4_kernels.aot.specs import Spec

USED = re.compile(r"Used (\d+) registers")
FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")


@dataclass(frozen=True, slots=True)
class Report:
    name: str
    capability: int
    registers: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    shared_bytes: int
    threads: int
    instructions: dict[str, int]  # tensor-core instructions of the PTX, by kind

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def build(spec: Spec, capability: int) -> Any:
    names = spec.kernel.arg_names
    signature = {name: spec.type_of(name) for name in names}
    aligned = {i for i, name in enumerate(names) if signature[name].startswith("*") or name in spec.aligned}
    source = ASTSource(
        fn=spec.kernel,
        signature=signature,
        constexprs={(names.index(name),): value for name, value in spec.constants.items()},
        attrs={(i,): [["tt.divisibility", 16]] for i in aligned},
    )
    options = {"num_warps": spec.num_warps, "num_stages": spec.num_stages, "launch_pdl": spec.launch_pdl}
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)


def ptxas_path(capability: int) -> str:
    nvidia = triton.knobs.nvidia
    return str((nvidia.ptxas_blackwell if capability >= 100 else nvidia.ptxas).path)


def ptxas_report(ptx: str, capability: int) -> str:
    """ptxas -v prints to stderr."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(ptx)
        arch = f"sm_{capability}a" if capability >= 90 else f"sm_{capability}"
        command = [ptxas_path(capability), "-v", f"--gpu-name={arch}", str(source), "-o", str(source.with_suffix(".o"))]
        return subprocess.run(command, capture_output=True, text=True, check=True).stderr


def parse_report(text: str) -> tuple[int, int, int, int]:
    """Registers, stack frame, spill stores, spill loads.

    >>> parse_report("  8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\\ninfo : Used 255 registers, x")
    (255, 8, 4, 4)
    """
    used, frame = USED.search(text), FRAME.search(text)
    if used is None or frame is None:
        raise ValueError(f"ptxas printed no resource report: {text!r}")
    stack, stores, loads = (int(value) for value in frame.groups())
    return int(used.group(1)), stack, stores, loads


def report(spec: Spec, capability: int) -> Report:
    compiled = build(spec, capability)
    ptx = compiled.asm["ptx"]
    kinds = ("mma.sync", "wgmma", "ldmatrix", "cp.async")
    return Report(
        spec.name,
        capability,
        *parse_report(ptxas_report(ptx, capability)),
        compiled.metadata.shared,
        32 * spec.num_warps,
        {kind: len(re.findall(rf"\b{re.escape(kind)}", ptx)) for kind in kinds},
    )
