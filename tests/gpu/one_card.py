"""The appliance with both roles on one card, for tests alone: python -m gpu.one_card serve

`dsv4-pd` gives each role cards of its own and has no setting that would not. Here its planning sees the one card twice,
and the plan is then folded onto the one that is there. Everything after the plan is the product, unchanged.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any


def twice(facts: Any) -> Any:
    """Facts of a machine whose only card is there a second time, under another name."""
    (gpu,) = facts.gpus
    return replace(facts, gpus=(gpu, replace(gpu, index=gpu.index + 1, uuid=f"{gpu.uuid}-twin")))


def folded(placement: Any, gpu: Any) -> Any:
    """Both roles on `gpu`, and it alone visible to their servers."""
    roles = tuple(replace(role, gpus=(gpu,), base_gpu_id=0) for role in placement.roles)
    return replace(placement, roles=roles, visible=(gpu,))


def on_one_card(plan: Callable[..., Any]) -> Callable[..., Any]:
    def planned(settings: Any, profile: Any, facts: Any, *more: Any) -> Any:
        if len(facts.gpus) != 1:
            raise SystemExit(f"gpu.one_card: found {len(facts.gpus)} cards, expected one; use `dsv4-pd` itself")
        return folded(plan(settings, profile, twice(facts), *more), facts.gpus[0])

    return planned


def modules(package: ModuleType) -> list[ModuleType]:
    """Every module of the package, imported."""
    names = [info.name for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    return [importlib.import_module(name) for name in names if not name.endswith(("__main__", ".agent"))]


def patch(package: ModuleType) -> int:
    """Put `on_one_card` before the package's `placement.place`, wherever it is bound; returns in how many places."""
    found = modules(package)
    (home,) = (module for module in found if module.__name__.endswith(".placement.place"))
    own = home.place
    replaced = on_one_card(own)
    places = [(module, name) for module in found for name, value in vars(module).items() if value is own]
    for module, name in places:
        setattr(module, name, replaced)
    return len(places)


def main() -> int:
    import dsv4_pd

    patch(dsv4_pd)
    from dsv4_pd.__main__ import main as product

    return product()


if __name__ == "__main__":
    sys.exit(main())
