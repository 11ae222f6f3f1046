"""Run something once a module has been imported, without importing it: the engine loads its compilers late."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

Then = Callable[[ModuleType], None]


class _Finder(importlib.abc.MetaPathFinder):
    """Stands first on the path of finders and finds nothing of its own."""

    def __init__(self) -> None:
        self.waiting: dict[str, list[Then]] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in self.waiting:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        found = (spec for finder in others if (spec := finder.find_spec(name, path, target)) is not None)
        spec = next(found, None)
        if spec is not None and spec.loader is not None:
            spec.loader = _Then(spec.loader, self)
        return spec


class _Then(importlib.abc.Loader):
    """The module's own loader, and then what waits for it."""

    def __init__(self, loader: importlib.abc.Loader, finder: _Finder) -> None:
        self._loader, self._finder = loader, finder

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        for then in self._finder.waiting.pop(module.__name__, []):
            then(module)


_FINDER = _Finder()


def when_imported(name: str, then: Then) -> None:
    """At once where the module is there already. What `then` raises is raised by whoever imports the module."""
    module = sys.modules.get(name)
    if module is not None:
        then(module)
        return
    _FINDER.waiting.setdefault(name, []).append(then)
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
