"""Which kernels a server uses, when first, and what compiling them costs: one JSON file for whoever warms caches.

    python -m gpu.manifest LOADS.jsonl READY.jsonl CACHE > manifest.json

LOADS: what `dsv4_ring.watch` noted of one server; READY: the part `ready`, which says after which class of request;
CACHE: the folder whose build logs (`.ninja_log`) hold real compile times. `seconds` is null where none was measured.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Line = dict[str, Any]
START = "start"


def build_seconds(cache: Path) -> dict[str, float]:
    """Seconds of each module that ninja built, by the module's name."""
    found: dict[str, float] = {}
    for log in sorted(cache.rglob(".ninja_log")):
        parts = log.parent.parts
        # SGLang: ARCH/MODULE/build-KEY/deps-KEY/.ninja_log; FlashInfer: cached_ops/MODULE/.ninja_log
        name = parts[-3] if parts[-1].startswith("deps-") else parts[-1]
        found[name] = max(found.get(name, 0.0), ninja_seconds(log.read_text(errors="replace")))
    return found


def ninja_seconds(text: str) -> float:
    """From the first step's start to the last one's end.

    >>> ninja_seconds("# ninja log v7\\n0\\t263500\\t1\\tcuda_0.o\\tab\\n263500\\t264000\\t2\\tx.so\\tcd\\n")
    264.0
    """
    rows = [line.split("\t") for line in text.splitlines() if line and not line.startswith("#")]
    times = [(int(row[0]), int(row[1])) for row in rows if len(row) >= 4]
    return (max(end for _, end in times) - min(begin for begin, _ in times)) / 1000 if times else 0.0


def first_uses(loads: Iterable[Line], ready: Iterable[Line], server: str) -> list[Line]:
    """One entry a kernel and specialisation, in the order of first use, with the class of request that asked for it.

    A class is known from the part's own lines, else from a window of time (`kind` window: other requests before it).
    """
    own = [line for line in ready if line.get("server") == server]
    asked = {key(line): line["request"] for line in own if line["kind"] == "load"}
    windows = [line for line in own if line["kind"] == "window"]
    entries: dict[tuple[str, ...], Line] = {}
    for number, line in enumerate(loads):
        if line["specialisation"].startswith(("ImportError", "AttributeError")):
            continue
        during = next((w["name"] for w in windows if w["from"] <= line["time"] < w["to"]), START)
        # TileLang's own cache is asked once a kernel: each line is one, whatever its parameters are called.
        alone = (str(number),) if line["system"] == "tilelang" else ()
        known = entries.setdefault((*key(line), *alone), {
            "system": line["system"], "kernel": line["kernel"], "specialisation": line["specialisation"],
            "first_used": during if during != START else asked.get(key(line), START), "seconds": None,
        })  # fmt: skip
        if not line["cached"]:
            known["seconds"] = line["seconds"]
    return list(entries.values())


def key(line: Line) -> tuple[str, str, str]:
    return line["system"], line["kernel"], line["specialisation"]


def with_build_times(entries: list[Line], seconds: dict[str, float]) -> list[Line]:
    return [entry | ({"seconds": seconds[entry["kernel"]]} if entry["kernel"] in seconds else {}) for entry in entries]


def read(path: Path) -> list[Line]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def manifest(loads: Path, ready: Path, cache: Path) -> Line:
    lines = read(ready)
    (machine,) = [line for line in lines if line["kind"] == "machine"]
    server = loads.name.split(".")[0]
    entries = with_build_times(first_uses(read(loads), lines, server), build_seconds(cache))
    after = [entry for entry in entries if entry["first_used"] != START]
    systems = sorted({entry["system"] for entry in entries})
    return {
        "machine": {name: machine[name] for name in ("date", "cards", "nvcc", "versions")},
        "server": server,
        "kernels": len(entries),
        "after_ready": {system: sum(entry["system"] == system for entry in after) for system in systems},
        "entries": entries,
    }


def main() -> int:
    loads, ready, cache = (Path(word) for word in sys.argv[1:4])
    json.dump(manifest(loads, ready, cache), sys.stdout, indent=1)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
