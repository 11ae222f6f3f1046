"""With the real Triton and a card that is not there: what it compiles is noted, and a damaged entry is made again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = os.pathsep.join(str(ROOT / name) for name in ("kernels", "hooks", "entrypoint", "tests/gpu/engine"))
PROGRAM = """
import sys
from dsv4_hooks import compiles
compiles.start()
import torch, triton, triton.language as tl
from dsv4_kernels.aot.warm import compile_only
compile_only(120)

@triton.jit
def double(x, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)

double.warmup(torch.float32, 512, B=128, grid=(1,))
"""
# One launch of ours, noted as the GPU ring notes it: two kernels.
RECORD = """
import sys
from contextlib import nullcontext
from dsv4_ring import watch
watch.start(sys.argv[1])
from dsv4_kernels.aot import warm
from dsv4_kernels.sglang_plugin import adapters
warm.compile_only(int(sys.argv[2]))
adapters.mhc(warm.mhc_call(24), nullcontext)
"""
CHECK = """
import json, sys, time
from pathlib import Path
from dsv4_pd.run.cache.check import check
report = check(Path(sys.argv[1]), time.time(), alone=True)
print(json.dumps({"whole": report.whole, "moved": [one.line() for one in report.moved]}))
"""


def python(*words: str, **environ: str) -> str:
    inherited = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, *words], env=inherited | {"PYTHONPATH": SOURCES} | environ, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture
def run(tmp_path: Path) -> Callable[[], list[bool]]:
    """Compile or find; whether each look-up was cached."""
    program = tmp_path / "program.py"  # triton.jit reads its source
    program.write_text(PROGRAM)
    counter = iter(range(100))

    def once() -> list[bool]:
        folder = tmp_path / f"records{next(counter)}"
        environ = {"TRITON_CACHE_DIR": str(tmp_path / "cache" / "triton"), "DSV4_PLUGIN_RECORD_DIR": str(folder)}
        python(str(program), **environ)
        (file,) = folder.glob("compiles.*.jsonl")
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        assert {(line["system"], line["kernel"]) for line in lines} == {("triton", "double")}
        assert all(0 <= line["seconds"] < 120 for line in lines)
        return [line["cached"] for line in lines]

    return once


def looked(tmp_path: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads(python("-c", CHECK, str(tmp_path / "cache")))
    return found


def test_compiled_once_and_found_afterwards(run: Callable[[], list[bool]], tmp_path: Path) -> None:
    assert run() == [False]
    assert looked(tmp_path) == {"whole": 1, "moved": []}
    assert run() == [True]


@pytest.mark.parametrize("name", ["double.cubin", "double.json"])
def test_what_triton_would_take_cut_off_is_made_again(run: Callable[[], list[bool]], tmp_path: Path, name: str) -> None:
    run()
    looked(tmp_path)
    (path,) = (tmp_path / "cache" / "triton").glob(f"*/{name}")
    path.write_bytes(path.read_bytes()[:-40])
    if name == "double.json":
        with pytest.raises(AssertionError, match="JSONDecodeError"):  # as at each start, forever
            run()
    found = looked(tmp_path)
    assert found["whole"] == 0 and name in str(found["moved"])
    assert run() == [False]
    assert looked(tmp_path) == {"whole": 1, "moved": []}


def test_a_recorded_run_is_replayed_for_another_card(tmp_path: Path) -> None:
    """What a launch on sm_120 then asks for is there: the very keys, recorded on an sm_90."""
    record, cache = tmp_path / "loads.jsonl", tmp_path / "cache"
    python("-c", RECORD, str(record), "90", TRITON_CACHE_DIR=str(tmp_path / "other"))
    assert " 2 kernels built of 2" in python("-m", "dsv4_bake.replay", str(record), str(cache))
    again = python("-m", "dsv4_bake.replay", str(record), str(cache))
    assert " 0 kernels built of 2" in again and " 0 lines can't be replayed" in again
    before = {path.parent.name for path in cache.glob("triton/*/*.cubin")}
    python("-c", RECORD, str(tmp_path / "second.jsonl"), "120", TRITON_CACHE_DIR=str(cache / "triton"))
    assert {path.parent.name for path in cache.glob("triton/*/*.cubin")} == before
    lines = [json.loads(line) for line in (tmp_path / "second.jsonl").read_text().splitlines()]
    assert [line["cached"] for line in lines if line["system"] == "triton"] == [True, True]
