"""Resolve a server's arguments through SGLang's own resolution; prints {"resolved": ...} or {"error": ...}.

    python engine_side.py CARDS BYTES MAJOR.MINOR -- --config FILE ...

Run by the engine's interpreter, by path; imports nothing of ours. With CARDS above 0 that many cards of BYTES each
stand in for the ones that are not here (or must not be touched while they serve), and so do packages that exist only
where a GPU is; the argument parser and every step of the resolution are the engine's own. With 0 nothing is stood in.
"""

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import io
import json
import sys
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

GPU_ONLY = ("sgl_kernel", "flashinfer", "pynvml", "deep_gemm", "tilelang", "cutlass", "flash_attn", "humming")
SMS = 188  # a test compares these with those of the kernels
NAME = "NVIDIA RTX PRO 6000 Blackwell Server Edition"


class GpuOnly(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Last on the path: serves only what this environment lacks."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """A stand-in for a package that only a GPU's environment has."""
        if name.split(".", maxsplit=1)[0] in GPU_ONLY:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Any:
        """A module of which every name is there."""
        module = MagicMock(name=spec.name)
        module.__name__, module.__spec__, module.__path__, module.__file__ = spec.name, spec, [], "stand-in"
        module.__version__ = "99"
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run."""


def stand_in(cards: int, memory: int, capability: tuple[int, int]) -> None:
    """Cards as torch reports them."""
    torch = importlib.import_module("torch")
    card = SimpleNamespace(
        major=capability[0],
        minor=capability[1],
        multi_processor_count=SMS,
        total_memory=memory,
        gcnArchName="",
        name=NAME,
    )
    torch.version.cuda = "13.0"
    torch.cuda.is_available = lambda: True
    torch.cuda.device_count = lambda: cards
    torch.cuda.get_device_capability = lambda device=None: capability
    torch.cuda.get_device_properties = lambda device=None: card
    torch.cuda.get_device_name = lambda device=None: card.name
    torch.cuda.mem_get_info = lambda device=None: (memory, memory)


def resolved(flags: list[str]) -> dict[str, Any]:
    """What the engine makes of its flags."""
    arguments = importlib.import_module("sglang.srt.server_args").prepare_server_args(flags)
    arguments.resolve_once()
    found: dict[str, Any] = arguments.resolved_dict()
    return found


def main(argv: list[str]) -> int:
    """Returns 0, or 1 when the engine refuses."""
    cards, memory, (major, minor) = int(argv[0]), int(argv[1]), map(int, argv[2].split("."))
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):  # argparse prints why, and exits
            if cards:
                sys.meta_path.append(GpuOnly())
                stand_in(cards, memory, (major, minor))
            answer: dict[str, Any] = {"resolved": resolved(argv[argv.index("--") + 1 :])}
    except SystemExit:
        answer = {"error": (said.getvalue().strip().splitlines() or ["it ended"])[-1]}
    except Exception as error:  # whatever the engine's resolution raises is its answer
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer, default=str))
    return int("error" in answer)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
