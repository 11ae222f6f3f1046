"""Resolve a server's arguments through SGLang's own resolution with eight sm_120 cards faked; prints JSON.

Run by the engine's interpreter: `python resolve_server_args.py --config FILE ...`. The device facts are faked in
torch, and packages that only exist for a GPU are stood in for; the argument parser and every resolution step are
the engine's own.
"""

import importlib.abc
import importlib.machinery
import json
import sys
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import torch

CARDS, MEMORY = 8, 97887 << 20
GPU_ONLY = ("sgl_kernel", "flashinfer", "pynvml", "deep_gemm", "tilelang", "cutlass", "flash_attn", "humming")


class GpuOnly(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Last on the path: serves only what this environment lacks."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.split(".", maxsplit=1)[0] in GPU_ONLY:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> Any:
        module = MagicMock(name=spec.name)
        module.__name__, module.__spec__, module.__path__, module.__file__ = spec.name, spec, [], "stand-in"
        module.__version__ = "99"
        return module

    def exec_module(self, module: Any) -> None:
        """Nothing to run."""


def fake_cards() -> None:
    card = SimpleNamespace(
        major=12, minor=0, multi_processor_count=188, total_memory=MEMORY, gcnArchName="",
        name="NVIDIA RTX PRO 6000 Blackwell Server Edition",
    )  # fmt: skip
    torch.version.cuda = "13.0"
    torch.cuda.is_available = lambda: True
    torch.cuda.device_count = lambda: CARDS
    torch.cuda.get_device_capability = lambda device=None: (12, 0)
    torch.cuda.get_device_properties = lambda device=None: card
    torch.cuda.get_device_name = lambda device=None: card.name
    torch.cuda.mem_get_info = lambda device=None: (MEMORY, MEMORY)


def main() -> None:
    sys.meta_path.append(GpuOnly())
    fake_cards()
    from sglang.srt.server_args import prepare_server_args

    args = prepare_server_args(sys.argv[1:])
    args.resolve_once()
    print(json.dumps(args.resolved_dict(), default=str))


if __name__ == "__main__":
    main()
