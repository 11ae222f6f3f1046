"""Modules that need torch or NumPy are not read for doctests; test_engine_side.py runs them where those are."""

from __future__ import annotations

collect_ignore = [
    "cases.py",
    "compare.py",
    "engine",
    "engine_side.py",
    "forced.py",
    "forced_check.py",
    "kit/unpack.py",
    "model",
    "parts/kernels.py",
    "parts/offload.py",
    "parts/tensor_parallel.py",
    "parts/variants.py",
    "variants_side.py",
]
