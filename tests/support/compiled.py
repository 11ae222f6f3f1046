"""A cache folder as the engine's compilers leave it: the real layout and file forms, with small contents."""

from __future__ import annotations

import importlib.util
import json
import pickle
from pathlib import Path

# A library of the interpreter's own stands for every compiled one: the form of a CUDA ELF file is the same.
_SPEC = importlib.util.find_spec("_json")
assert _SPEC is not None and _SPEC.origin is not None
LIBRARY = Path(_SPEC.origin).read_bytes()

TRITON = "triton/A7WBIEKK3S4N6V3ZC5YV2DNHG5Y7BZ4S2Y7YQ2N3Z2K5TQ6QJ7AA"
TVM_FFI = "jit/sm120f/sgl_kernel_jit_dpsk_v4_topk_v1_true/build-f53608ec41b68cef/deps-1dd021c996d381f2"
TILELANG = "tilelang/0.1.12/linux-x86_64/kernels/" + "e1f0" * 16
TILELANG_BINARY = "tilelang/0.1.12/cuda-binaries/" + "4c8e" * 16 + ".cubin"
FLASHINFER = ".cache/flashinfer/0.7.2/120f/cached_ops/norm"
INDUCTOR = "inductor/fxgraph/sf/fsf5cadpzz7tqq5ljn443ksjcw7ii5d5lup6734bq6pgwlgndw4g/y64fmv5hd2ri3pa3i7"
TUNED = "flashinfer/autotune/0.7.2/sm120/abc/rank_0.json"
ALL = (TRITON, TVM_FFI, TILELANG, TILELANG_BINARY, FLASHINFER, INDUCTOR, TUNED)


def fill(cache: Path) -> None:
    """One entry of each kind."""
    triton(cache, TRITON.split("/")[1])
    leaf = _folder(cache / TVM_FFI, {"cuda.cu": b"#include <a>", "build.ninja": b"rule a", ".ninja_log": b"# log"})
    (leaf / "sgl_deps.json").write_text(json.dumps([["sys", "include/a.h", "00"]]))
    (leaf / "sgl_kernel_jit_dpsk_v4_topk_v1_true.so").write_bytes(LIBRARY)
    kernel = b'extern "C" __global__ void __launch_bounds__(128, 1) mhc_post_tilelang_kernel(const float* a) {'
    _folder(cache / TILELANG, {"device_kernel.cu": kernel, "host_kernel.cu": b"int f;", "executable.so": LIBRARY,
                               "params.pkl": pickle.dumps([1, 2])})  # fmt: skip
    _folder(cache / FLASHINFER, {"norm.so": LIBRARY, "norm.cuda.o": LIBRARY, "build.ninja": b"rule b"})
    for name, data in ((TILELANG_BINARY, LIBRARY), (INDUCTOR, pickle.dumps({"a": 1}, 4)), (TUNED, b'{"a": [1]}')):
        (cache / name).parent.mkdir(parents=True, exist_ok=True)
        (cache / name).write_bytes(data)


def triton(cache: Path, key: str, kernel: str = "sparse_mla_split_kernel") -> Path:
    """One entry of Triton's, whose index names its files by absolute path."""
    home = cache / "triton" / key
    files = {f"{kernel}.cubin": LIBRARY, f"{kernel}.json": b'{"name": "k"}', f"{kernel}.ttir": b"module {}"}
    _folder(home, files)
    (home / f"__grp__{kernel}.json").write_text(json.dumps({"child_paths": {name: str(home / name) for name in files}}))
    return home


def _folder(path: Path, files: dict[str, bytes]) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (path / name).write_bytes(data)
    return path
