"""Compile SGLang's TVM-FFI modules for sm_120, without a card, into a cache that a server takes as its own.

    python -m dsv4_bake.tvm_ffi JIT_FOLDER [--only NAME ...] [--workers N] [--list FILE] [--prune]

SGLang's key holds nvcc, g++, every header and every flag: run it with the image's own, in the image's own places. The
libraries are loaded once built, so the driver's stub must be on LD_LIBRARY_PATH as libcuda.so.1. Prints what it built;
a second run must print 0.
"""

from __future__ import annotations

import argparse
import functools
import os
import time
from pathlib import Path
from typing import Any

from dsv4_hooks import compiles

from dsv4_bake import card, listed

# Left of a build, read by nobody: a hit needs the library and the list of what it was built from.
NOT_NEEDED = ("*.o", "*.o.d", ".ninja_log", "build.ninja", "cuda.cu")


def main() -> int:
    parser = argparse.ArgumentParser(description="Compile SGLang's TVM-FFI modules for sm_120.")
    parser.add_argument("folder", type=Path, help="SGLANG_JIT_CACHE_DIR of the servers")
    parser.add_argument("--list", type=Path, default=listed.FILE)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--prune", action="store_true", help="remove what only builds need: for an image alone")
    options = parser.parse_args()
    folder: Path = options.folder
    os.environ["SGLANG_JIT_CACHE_DIR"] = str(folder)
    compiles.start()
    card.stand_in()
    before, begun = libraries(folder), time.monotonic()
    built = build(listed.rows(options.list, "tvm_ffi", options.only), options.workers)
    for pattern in NOT_NEEDED if options.prune else ():
        for path in folder.glob(f"*/*/build-*/deps-*/{pattern}"):
            path.unlink()
    have = libraries(folder)
    size = sum(path.stat().st_size for path in have) / 1e6
    print(f"tvm-ffi: {len(have - before)} of {built} modules built in {time.monotonic() - begun:.0f} s, {size:.1f} MB")
    return 0


def build(rows: list[dict[str, Any]], workers: int) -> int:
    """All of them, several at once."""
    from sglang.kernels.jit.utils.arch import override_jit_cuda_arch
    from sglang.kernels.jit.utils.compile.parallel import parallel_compile

    with override_jit_cuda_arch(*card.CAPABILITY):
        builders = [builder(row["call"], [listed.value(argument) for argument in row["arguments"]]) for row in rows]
        return len(parallel_compile(builders, max_workers=workers))


def builder(call: str, arguments: list[Any]) -> functools.partial[Any]:
    if call == "router_gemm":
        return functools.partial(router_gemm, *arguments)
    return functools.partial(listed.resolve(call), *arguments)


def router_gemm(experts: int, hidden: int, rows: int = 16) -> Any:
    """As tiny_gemm_bf16 picks it: the split of the outputs follows the card's SMs."""
    import torch
    from sglang.kernels.ops.gemm import tiny_gemm

    split = tiny_gemm._default_n_gemm_n_split(experts, hidden, rows)
    return tiny_gemm._jit_tiny_gemm_module(experts, hidden, rows, split, torch.float32, torch.bfloat16)


def libraries(folder: Path) -> set[Path]:
    return set(folder.glob("*/*/build-*/deps-*/*.so"))


if __name__ == "__main__":
    raise SystemExit(main())
