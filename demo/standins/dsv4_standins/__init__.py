"""Make `import triton` and `import torchvision` succeed where neither can be used.

SGLang imports both at module level, to define kernels and image transforms that a text model on a CPU never
runs. A CPU build of torch brings no triton (0.9 GB), and the torchvision of the index is built against CUDA.
So each name here imports, decorates and subclasses like the original, and computes nothing: whoever calls a
stand-in for its result gets a StandinUsed that names it.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any


class StandinUsed(RuntimeError):
    """A name of an absent package was asked for a result."""


class ClassSymbol(type):
    """Class attributes exist too: `InterpolationMode.NEAREST`."""

    def __getattr__(cls, attribute: str) -> Symbol:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return Symbol(f"{cls.__name__}.{attribute}")


class Symbol(metaclass=ClassSymbol):
    """Stands for a function, a class, a decorator or a namespace: whatever the importing module makes of it."""

    def __init__(self, name: str = "?", *_: object, **__: object) -> None:
        self._standin_name = name if isinstance(name, str) else "?"

    def __init_subclass__(cls, **_: object) -> None:
        super().__init_subclass__()

    def __getattr__(self, attribute: str) -> Symbol:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return Symbol(f"{self._standin_name}.{attribute}")

    def __call__(self, *arguments: Any, **options: object) -> Any:
        """A decorator gives the function back; anything else may be a decorator's factory, and has no attributes:
        SGLang asks triton for the active driver and takes the AttributeError for "no GPU".
        """
        if len(arguments) == 1 and callable(arguments[0]) and not options:
            return arguments[0]
        return unchanged

    def __mro_entries__(self, _: tuple[type, ...]) -> tuple[type, ...]:
        return (Symbol,)

    def __or__(self, other: object) -> Any:  # annotations such as `tl.tensor | None`
        return other

    __ror__ = __or__

    def __getitem__(self, _: object) -> Symbol:
        return self

    def __iter__(self) -> Any:
        raise StandinUsed(f"{self._standin_name} is a stand-in for a package that this CPU engine leaves out")

    __bool__ = __int__ = __float__ = __index__ = __len__ = __iter__

    def __repr__(self) -> str:
        return f"<stand-in for {self._standin_name}>"


def unchanged(function: Any) -> Any:
    return function


class StandinModule(ModuleType):
    """Any attribute exists; those that look like classes can be subclassed and used with isinstance."""

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        full = f"{self.__name__}.{attribute}"
        value = (
            ClassSymbol(attribute, (Symbol,), {"__module__": self.__name__})
            if attribute[:1].isupper()
            else Symbol(full)
        )
        setattr(self, attribute, value)
        return value


class SubmoduleFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds every submodule of the packages that called `stand_in`."""

    def __init__(self) -> None:
        self.packages: set[str] = set()

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        head, dot, _ = name.partition(".")
        known = dot and head in self.packages
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if known else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return StandinModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        module.__file__ = __file__


FINDER = SubmoduleFinder()


def stand_in(package: str) -> None:
    """Called by the package's own __init__: from now on it has whatever attribute or submodule is asked for."""
    FINDER.packages.add(package)
    if FINDER not in sys.meta_path:
        sys.meta_path.append(FINDER)
    sys.modules[package].__class__ = StandinModule
