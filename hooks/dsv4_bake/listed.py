"""compiled.toml: which builder makes each module, and with which arguments."""

from __future__ import annotations

import importlib
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("compiled.toml")


def rows(file: Path, step: str, only: Sequence[str] = (), *, long: bool = False) -> list[dict[str, Any]]:
    """The kernels of one step; `only`: beginnings of names, for a trial. long: also those that name a `cost`."""
    listed = tomllib.loads(file.read_text(encoding="utf-8"))["kernel"]
    mine = [row for row in listed if row.get("step") == step and (long or only or "cost" not in row)]
    return [row for row in mine if not only or row["kernel"].startswith(tuple(only))]


def resolve(call: str) -> Callable[..., Any]:
    """`package.module:function`."""
    module, _, name = call.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function


def value(argument: Any) -> Any:
    """An argument as the builder takes it: `dtype:bfloat16` is torch's, `layout:V4` the engine's."""
    kind, _, name = argument.partition(":") if isinstance(argument, str) else ("", "", "")
    if kind == "dtype":
        import torch

        return getattr(torch, name)
    if kind == "layout":
        return resolve("sglang.kernels.ops.attention.dsv4.kv_layout:KVLayout")[name]  # type: ignore[index]
    return argument
