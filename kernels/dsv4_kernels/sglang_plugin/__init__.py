"""Entry point `dsv4-kernels` of SGLang's plugin group: check every target against the pinned engine, then hook it."""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from dsv4_kernels import settings
from dsv4_kernels.sglang_plugin.record import Record
from dsv4_kernels.sglang_plugin.table import ENGINE_VERSION, HOOKS, Around, Hook


class EngineMismatchError(RuntimeError):
    """The installed engine is not the one that the table was written for."""


def register() -> None:
    """Never half: one target that does not match and none is hooked, and the record says why."""
    chosen = settings.load()
    record = Record(chosen.record_dir)
    if not chosen.enabled:
        record.finish("ok", "DSV4_KERNELS=stock")
        return
    try:
        install(record)
    except Exception as error:
        record.finish("failed", f"{type(error).__name__}: {error}")
        raise
    record.finish("ok")


def install(record: Record) -> None:
    check_version(importlib.metadata.version("sglang"))
    signatures = {hook.name: check_target(hook) for hook in HOOKS}
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    record.required = tuple(hook.name for hook in HOOKS if hook.required)
    for hook in HOOKS:
        HookRegistry.register(hook.target, around(hook, signatures[hook.name], record), HookType.AROUND)
        record.installed(hook.name)


def check_version(found: str) -> None:
    if found != ENGINE_VERSION:
        raise EngineMismatchError(
            f"sglang {found}, expected {ENGINE_VERSION}: install that engine or start with DSV4_KERNELS=stock"
        )


def check_target(hook: Hook) -> inspect.Signature:
    module_name, _, attribute = hook.target.rpartition(".")
    target = getattr(importlib.import_module(module_name), attribute, None)
    if target is None:
        raise EngineMismatchError(f"{hook.target} does not exist: start with DSV4_KERNELS=stock")
    signature = inspect.signature(target)
    found = tuple(signature.parameters)
    if found != hook.parameters:
        raise EngineMismatchError(f"{hook.target} takes {found}, expected {hook.parameters}: DSV4_KERNELS=stock")
    return signature


def around(hook: Hook, signature: inspect.Signature, record: Record) -> Around:
    """The AROUND hook of one target. Runs in Python only outside CUDA-graph replay."""
    adapters = importlib.import_module("dsv4_kernels.sglang_plugin.adapters")
    refuse: Callable[[dict[str, Any]], str | None] = getattr(adapters, f"refuse_{hook.adapter}")
    run: Callable[..., Any] = getattr(adapters, hook.adapter)
    if hook.adapter == "mhc":
        run = functools.partial(run, symmetric=symmetric_memory)

    def hooked(original: Around, *args: Any, **kwargs: Any) -> Any:
        record.active(hook.name)
        call = bind(signature, args, kwargs)
        reason = refuse(call)
        if reason is None:
            return run(call)
        record.fallback(hook.name, reason)
        return original(*args, **kwargs)

    return hooked


def bind(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
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
