"""demo/setup_engine.py as a module: a script, which is in no package."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

FILE = Path(__file__).resolve().parents[2] / "demo/setup_engine.py"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("setup_engine", FILE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
