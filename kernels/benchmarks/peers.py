"""The engine's own kernels, loaded from the files of an installed SGLang 0.5.23, and the vendors' Hopper kernels.

SGLang cannot be imported whole on a machine that has only torch; its kernel files can, when the modules that they take
small predicates from are stand-ins. The kernels themselves are the installed ones, byte for byte.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import subprocess
import sys
import tempfile
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

OFF = (
    "is_hip",
    "is_xpu",
    "is_gfx942_supported",
    "is_gfx95_supported",
    "is_gfx1250_supported",
    "is_sm120_supported",
    "is_fp8_fnuz",
)
FALLBACK_MLA = "kernels/ops/attention/flash_mla_sm120_triton.py"
TILELANG_MHC = "kernels/ops/layernorm/mhc.py"
TILELANG_INDEXER = "kernels/ops/attention/dsa/tilelang_kernel.py"
TRITON_MLA = "kernels/ops/attention/dsv4/triton_sparse_decode/triton_mla_kernels_decode_fused.py"
TORCH_INDEXER = "srt/layers/attention/dsv4/indexer.py"
TOPK_SOURCE = "deepseek_v4/topk_v1.cuh"


class StandIn(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in OFF:
            return lambda: False
        return ANSWERS.get(name, MagicMock())


def environment() -> Any:
    """Settings at their sm_120 defaults where the kernel files ask for them."""
    envs = MagicMock()
    envs.SGLANG_OPT_DEEPGEMM_HC_PRENORM.get.return_value = False
    envs.SGLANG_USE_AITER.get.return_value = False
    return envs


ANSWERS: dict[str, Any] = {
    "envs": environment(),
    "is_arch_support_pdl": lambda: True,
    "strict_contiguous": lambda value: value,
    "use_symmetric_memory": lambda *_, **__: contextlib.nullcontext(),
}


class StandInFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] != "sglang":
            return None
        return importlib.util.spec_from_loader(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = StandIn(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """A stand-in has no code."""


def load_engine_file(root: Path, relative: str) -> types.ModuleType:
    """root: the installed `sglang` folder. From a file, because TileLang reads its kernels' source."""
    if not any(isinstance(finder, StandInFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, StandInFinder())
    name = ".".join(("sglang", *Path(relative).with_suffix("").parts))  # what its neighbours import it as
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, root / relative)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(root / relative)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def build_topk(root: Path) -> Any:
    """The engine's top-k of sm_120 (one block a row), compiled from the installed source for the card at hand."""
    tvm_ffi, torch = importlib.import_module("tvm_ffi"), importlib.import_module("torch")
    folder = Path(tempfile.mkdtemp())
    source, library = folder / "topk.cu", folder / "topk.so"
    headers = ("container/tensor.h", "dtype.h", "error.h", "extra/c_env_api.h", "function.h")
    lines = [f"#include <tvm/ffi/{name}>" for name in headers] + [f'#include "{TOPK_SOURCE}"', "namespace sglang {"]
    lines += ["TVM_FFI_DLL_EXPORT_TYPED_FUNC(topk_transform, (TopKKernel<true>::transform));", "}"]
    source.write_text("\n".join(lines))
    major, minor = torch.cuda.get_device_capability()
    jit, ffi = root / "kernels" / "jit", Path(str(tvm_ffi.__file__)).parent
    folders = (jit / "include", jit / "csrc", ffi / "include", ffi / "3rdparty" / "dlpack" / "include")
    command = ["nvcc", "-shared", "-Xcompiler", "-fPIC", "-std=c++20", "-O3", "--expt-relaxed-constexpr"]
    command += [f"-DSGL_CUDA_ARCH={major * 100 + minor * 10}"]
    command += [f"-gencode=arch=compute_{major}{minor}a,code=sm_{major}{minor}a"]
    command += [f"-I{path}" for path in folders]
    command += [f"-L{ffi / 'lib'}", "-ltvm_ffi", str(source), "-o", str(library)]
    subprocess.run(command, check=True)
    return tvm_ffi.load_module(str(library)).topk_transform


def optional(name: str) -> Any:
    """A vendor's package, or None where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        print(f"peer {name} left out: {error}", file=sys.stderr)
        return None
