"""Every compiler of the engine is watched from its import on, and what it does reaches the guard's reader."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import ROOT, VENVS
from dsv4_hooks import compiles, when_imported
from dsv4_pd.run.guard.watch import compilers
from dsv4_pd.run.guard.watch.compile_log import CompileLog

HEADER = "#include <tvm/ffi/container/tensor.h>\nint answer(int x) { return x + 41; }\n"
# The real loader of the engine, with the one compiler that needs no GPU: twice, so that the second finds the first's.
LOAD = """
import sys
from dsv4_hooks import compiles
compiles.start()
from sglang.kernels.jit.utils.compile import load_jit
for _ in range(2):
    assert load_jit("probe", cpp_files=[sys.argv[1]], cpp_wrappers=[("answer", "answer")]).answer(1) == 42
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    name = f"watched_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield name
    sys.modules.pop(name, None)


def test_it_runs_once_the_module_is_imported_and_at_once_when_it_is(module: str) -> None:
    seen: list[Any] = []
    when_imported.when_imported(module, seen.append)
    when_imported.when_imported(module, lambda found: seen.append(found.value))
    assert seen == [] and module not in sys.modules
    found = importlib.import_module(module)
    assert seen == [found, 1]
    assert found.__spec__ is not None and found.__loader__ is found.__spec__.loader
    assert not hasattr(found.__loader__, "_finder")
    when_imported.when_imported(module, seen.append)
    assert seen == [found, 1, found]


def lines(folder: Path) -> list[tuple[str, str, bool]]:
    (file,) = folder.glob("compiles.*.jsonl")
    found = [json.loads(text) for text in file.read_text().splitlines()]
    assert all(item["pid"] == os.getpid() and abs(item["time"] - time.time()) < 60 for item in found)
    return [(item["system"], item["kernel"], item["cached"]) for item in found]


def test_triton_s_other_listener_is_kept(tmp_path: Path) -> None:
    heard: list[bool] = []
    knobs = SimpleNamespace(compilation=SimpleNamespace(listener=lambda *, cache_hit, **_: heard.append(cache_hit)))
    compiles.triton(compiles.Log(tmp_path), knobs)
    times = SimpleNamespace(total=2_500_000)
    for hit in (False, True):
        knobs.compilation.listener(src=None, metadata={"name": "k"}, metadata_group={}, times=times, cache_hit=hit)
    assert lines(tmp_path) == [("triton", "k", False), ("triton", "k", True)]
    assert heard == [False, True]


def test_another_version_of_a_compiler_is_said_to_be_unwatched(tmp_path: Path) -> None:
    log = compiles.Log(tmp_path)
    for system, (_, watch) in compiles.WATCHED.items():
        compiles._watch(log, system, watch, SimpleNamespace())  # type: ignore[arg-type]
    read = CompileLog(tmp_path)
    assert read.read(lambda _: "decode", {}) == []
    assert set(read.unwatched) == set(compiles.WATCHED)
    assert "can't be watched" in read.offence([])


def test_writer_and_reader_agree(tmp_path: Path) -> None:
    log = compiles.Log(tmp_path)
    log.compiled("tvm-ffi", "dpsk_v4_topk_v1_true", 8.7314)
    log.found("triton", "k", 0.01)
    read = CompileLog(tmp_path)
    (fresh,) = read.read(lambda pid: "decode" if pid == os.getpid() else "?", {})
    assert (fresh.system, fresh.kernel, fresh.seconds) == ("tvm-ffi", "dpsk_v4_topk_v1_true", 8.731)
    assert read.document()["kernels"][0]["member"] == "decode"
    assert read.document()["from_cache"] == [{"member": "decode", "system": "triton", "count": 1}]


def test_a_folder_that_can_t_be_written_costs_no_call(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    log = compiles.Log(tmp_path / "file" / "below")
    log.compiled("triton", "k", 1.0)
    log.found("triton", "k", 1.0)


def test_flashinfer_s_ninja_may_find_nothing_to_do(tmp_path: Path) -> None:
    """JitSpecNvcc of flashinfer 0.7.2: build() always runs ninja, which builds or does not."""

    class JitSpecNvcc:
        name, jit_library_path = "norm", tmp_path / "norm.so"

        def build(self, work: bool) -> None:
            if work:
                self.jit_library_path.write_text(str(time.time()))

        def try_load(self) -> str | None:
            return "packaged" if self.name == "packaged" else None

    compiles.flashinfer(compiles.Log(tmp_path), SimpleNamespace(JitSpecNvcc=JitSpecNvcc))
    spec: Any = JitSpecNvcc()
    assert spec.try_load() is None
    spec.build(work=True)
    spec.build(work=False)
    spec.name = "packaged"
    assert spec.try_load() == "packaged"
    assert [cached for _, _, cached in lines(tmp_path)] == [False, True, True]


@pytest.mark.engine
def test_the_engine_s_own_modules_are_counted(tmp_path: Path) -> None:
    header = tmp_path / "probe.h"
    header.write_text(HEADER)
    environ = os.environ | {
        "PYTHONPATH": str(ROOT / "hooks"),
        "DSV4_PLUGIN_RECORD_DIR": str(tmp_path / "records"),
        "SGLANG_JIT_CACHE_DIR": str(tmp_path / "jit"),
    }
    python = str(VENVS / "engine" / "bin" / "python")
    server = subprocess.Popen([python, "-c", LOAD, str(header)], env=environ, start_new_session=True)
    seen = False
    while server.poll() is None:
        seen = seen or compilers.run(server.pid)
        time.sleep(0.02)
    assert server.returncode == 0
    assert seen, "the guard, too, sees a compiler"
    log = CompileLog(tmp_path / "records")
    (fresh,) = log.read(lambda _: "decode", {})
    assert (fresh.system, fresh.kernel, fresh.seconds > 0.1) == ("tvm-ffi", "probe", True)
    assert log.found == {("decode", "tvm-ffi"): 1}
    assert log.unwatched == {}
