"""What runs around a hooked function: our op where it was measured, else the engine's own, with the reason recorded."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from dsv4_hooks.table import Around, Context

Call = dict[str, Any]  # the engine's arguments by name


def around(context: Context, refuse: Callable[[Call], str | None], run: Callable[[Call], Any]) -> Around:
    """Runs in Python only outside CUDA-graph replay."""

    def hooked(original: Around, *args: Any, **kwargs: Any) -> Any:
        call = bind(context.signature, args, kwargs)
        reason = refuse(call)
        if reason is None:
            return run(call)
        context.record.fallback(context.name, reason)
        return original(*args, **kwargs)

    return hooked


def bind(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    """Arguments by name, whatever way the engine passed them."""
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    values = dict(bound.arguments)
    if tuple(values) == ("kwargs",):
        return dict(values["kwargs"])
    return values


def symmetric_memory() -> AbstractContextManager[object]:
    """The pool that the engine itself allocates the layer input from."""
    engine = importlib.import_module("sglang.kernels.ops.layernorm.mhc")
    context: AbstractContextManager[object] = engine.use_symmetric_memory(
        engine.get_parallel().tp_group, disabled=not engine.is_allocation_symmetric()
    )
    return context
