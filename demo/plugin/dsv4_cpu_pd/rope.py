"""The name that SGLang's rotary embedding imports on a device that it has no kernel of its own for.

On a CPU the layer runs its own torch code (`forward_native`), but its constructor still imports a kernel from
`vllm._custom_ops`, and vLLM is no part of this engine. So the name exists, and whoever calls it learns why it fails.
"""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import Any

from dsv4_hooks.record import Record
from dsv4_hooks.targets import EngineChanged

MODULE, NAME = "vllm._custom_ops", "rotary_embedding"
TARGET = f"{MODULE}.{NAME}"


def rotary_embedding(*_: object, **__: object) -> None:
    raise EngineChanged("SGLang called vLLM's rotary_embedding on a CPU, where it used to run its own torch code")


def install(record: Record) -> None:
    if importlib.util.find_spec("vllm") is not None:
        raise EngineChanged("vllm is installed beside SGLang: its own CUDA rotary_embedding would be taken")
    module = ModuleType(MODULE)

    def find(name: str) -> Any:
        """A module's own __getattr__, so that the import itself is seen."""
        if name != NAME:
            raise AttributeError(name)
        record.active(TARGET)
        return rotary_embedding

    module.__getattr__ = find  # type: ignore[method-assign]
    # The parent package stays absent, so that nobody takes vLLM for installed.
    sys.modules[MODULE] = module
    record.installed(TARGET)
