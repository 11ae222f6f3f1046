"""One command a part: python -m gpu PART..., in the engine's environment of a GPU machine. README.md has the order."""

from __future__ import annotations

import importlib
import json
import sys

from gpu import machine

# part -> (module, function, what it needs)
PARTS = {
    "memory": ("gpu.parts.memory", "main", "an otherwise empty card and a checkpoint"),
    "model": ("gpu.parts.model", "main", "an otherwise empty card"),
    "serve": ("gpu.parts.kernels", "serve", "a checkpoint"),
    "ready": ("gpu.parts.ready", "main", "serve"),
    "answers": ("gpu.parts.kernels", "single", "serve"),
    "kernels": ("gpu.parts.kernels", "kernels", "serve"),
    "pair": (
        "gpu.parts.pair",
        "main",
        "a checkpoint and an otherwise empty card (stop); after answers they are compared",
    ),
    "tensor-parallel": ("gpu.parts.tensor_parallel", "main", "two empty cards and a checkpoint"),
    "warm": ("gpu.parts.warm", "main", "a checkpoint and an otherwise empty card (stop)"),
    "shrunk": ("gpu.parts.shrunk", "main", "nothing"),
    "layouts": ("gpu.parts.layouts", "main", "two empty cards and a checkpoint"),
    "tune": ("gpu.parts.tune", "main", "two empty cards and a checkpoint"),
    "offload": ("gpu.parts.offload", "main", "an otherwise empty card and a checkpoint (stop)"),
    "variants": (
        "gpu.parts.variants",
        "main",
        "an otherwise empty card and a checkpoint (stop)",
    ),
    "variants-pair": ("gpu.parts.variants", "paired", "variants"),
    "stop": ("gpu.parts.kernels", "stop", "nothing"),
}


def main(argv: list[str]) -> int:
    if argv == ["machine"]:
        print(json.dumps(machine.facts(), indent=1))
        return 0
    unknown = [name for name in argv if name not in PARTS]
    if unknown or not argv:
        parts = "\n".join(f"  {name:8s} needs {needs}" for name, (_, _, needs) in PARTS.items())
        print(
            f"python -m gpu PART...: found {unknown or 'no part'}, expected machine or some of\n{parts}",
            file=sys.stderr,
        )
        return 2
    failed = 0
    for name in argv:  # each part runs, whatever became of the one before
        module, function, _ = PARTS[name]
        failed |= getattr(importlib.import_module(module), function)()
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
