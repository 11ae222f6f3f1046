"""A start on an sm_120 card that is not there: all that has a step here is asked for, and must be found compiled.

    python -m dsv4_bake.simulate --heads N... [--systems NAME...]

In the environment that the plan gives a server (SGLANG_CACHE_DIR, SGLANG_JIT_CACHE_DIR): the engine's own calls, with
its own keys. heads: of one rank, 64 / its tensor parallelism. Names what was compiled after all, and exits 1 then.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from dsv4_hooks.record import FOLDER_VARIABLE

SYSTEMS = ("tvm-ffi", "tilelang", "triton", "flashinfer")
# Watched from its first line on, as a server's processes are.
_WATCHED = (
    "import runpy, sys; from dsv4_hooks import compiles; compiles.start();"
    "del sys.argv[0]; runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)


def main() -> int:
    parser = argparse.ArgumentParser(description="Ask for every kernel of an sm_120 start; none may be compiled.")
    parser.add_argument("--heads", type=int, nargs="+", required=True)
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS), choices=SYSTEMS)
    options = parser.parse_args()
    cache, jit = Path(os.environ["SGLANG_CACHE_DIR"]), Path(os.environ["SGLANG_JIT_CACHE_DIR"])
    failed = [name for name in options.systems if not asked(name, cache, jit, options.heads)]
    print(f"{len(options.systems)} compilers asked, {len(failed)} of them compiled: {' '.join(failed) or 'none'}")
    return int(bool(failed))


def asked(system: str, cache: Path, jit: Path, heads: Sequence[int]) -> bool:
    """Whether one compiler had everything."""
    with tempfile.TemporaryDirectory() as records:
        environ = {**os.environ, FOLDER_VARIABLE: records}
        words = command(system, cache, jit, heads)
        done = subprocess.run([sys.executable, "-c", _WATCHED, *words], env=environ, check=False)
        return told(system, Path(records), done.returncode)


def command(system: str, cache: Path, jit: Path, heads: Sequence[int]) -> list[str]:
    """The step, on the places of a server."""
    commands = {
        "tvm-ffi": ["dsv4_bake.tvm_ffi", str(jit)],
        "tilelang": ["dsv4_bake.tilelang", str(cache)],
        "triton": ["dsv4_kernels.aot.warm", str(cache / "triton"), "--heads", *map(str, heads)],
        "flashinfer": ["dsv4_bake.flashinfer", str(cache), "--find"],
    }
    return commands[system]


def told(system: str, records: Path, status: int) -> bool:
    """What the watch saw; a step that found nothing at all has asked for nothing, which is a failure too."""
    lines = [json.loads(line) for path in records.glob("compiles.*.jsonl") for line in path.read_text().splitlines()]
    fresh = Counter(line["kernel"] for line in lines if not line["cached"])
    unwatched = [line["unwatched"] for line in lines if line.get("unwatched")]
    found = sum(line["cached"] for line in lines) - len(unwatched)
    for name, count in sorted(fresh.items()):
        print(f"{system}: not found: {name} ({count})")
    for reason in unwatched:
        print(f"{system}: can't be watched: {reason}")
    good = status == 0 and not fresh and not unwatched and (found > 0 or system == "flashinfer")
    print(f"{system}: {found} found, {fresh.total()} compiled{'' if status == 0 else f', exit {status}'}")
    return good


if __name__ == "__main__":
    raise SystemExit(main())
