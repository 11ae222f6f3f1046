"""Compile again, for another card, what a recorded run asked Triton for; without a card.

    python -m dsv4_bake.replay RECORD CACHE [CAPABILITY]

RECORD: JSON lines of the GPU ring's watch (`RING_LOADS`), or a manifest of them. What the key holds beside the source,
the compiler and the card stands in a line's `replay`: constants, the arguments that are multiples of 16, options.
Lines without it are counted and left out. Prints what it built; a second run must print 0.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Line = dict[str, Any]


def main(arguments: list[str]) -> int:
    record, cache = Path(arguments[0]), Path(arguments[1])
    capability = int(arguments[2]) if len(arguments) > 2 else 120
    os.environ["TRITON_CACHE_DIR"] = str(cache / "triton")
    begun, before = time.monotonic(), binaries(cache)
    lines = list(triton_lines(record))
    usable = unique(line for line in lines if line.get("replay"))
    for line in usable:
        build(line, capability)
    made = len(binaries(cache) - before)
    print(
        f"triton: {made} kernels built of {len(usable)} in {time.monotonic() - begun:.0f} s; "
        f"{len(lines) - sum(bool(line.get('replay')) for line in lines)} lines can't be replayed"
    )
    return 0


def triton_lines(record: Path) -> Iterator[Line]:
    """What Triton was asked for, each as the dictionary of its specialisation."""
    text = record.read_text(encoding="utf-8")
    found = json.loads(text)["entries"] if text.lstrip().startswith("{\n") else map(json.loads, text.splitlines())
    for line in found:
        if line["system"] == "triton":
            try:
                yield json.loads(line["specialisation"])
            except ValueError:
                yield {}  # cut off when it was recorded


def unique(lines: Iterator[Line]) -> list[Line]:
    return list({json.dumps(line, sort_keys=True): line for line in lines}.values())


def build(line: Line, capability: int) -> None:
    """With the very source object that a launch would make."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    module, _, name = line["function"].partition(":")
    function = getattr(importlib.import_module(module), name)
    replay = line["replay"]
    source = ASTSource(
        fn=function,
        signature=line["signature"],
        constexprs={path(key): value for key, value in replay["constants"].items()},
        attrs={path(key): value for key, value in replay["attrs"].items()},
    )
    triton.compile(source, target=GPUTarget("cuda", capability, 32), options=replay["options"])


def path(text: str) -> tuple[int, ...]:
    """
    >>> path("3.0")
    (3, 0)
    """
    return tuple(int(part) for part in text.split("."))


def binaries(cache: Path) -> set[Path]:
    return set((cache / "triton").glob("*/*.cubin"))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
