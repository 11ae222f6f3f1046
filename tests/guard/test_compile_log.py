"""What the servers compiled reaches the operator by name, once, and to the server that did it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from dsv4_pd.run.cache import digests
from dsv4_pd.run.cache.check import check
from dsv4_pd.run.guard.watch.compile_log import SHOWN, CompileLog
from dsv4_pd.run.guard.watch.compiles import Compiles
from dsv4_pd.run.ops import own
from dsv4_pd.run.ops.exposition import render, samples
from support import compiled as support

SERVERS = {11: "prefill", 12: "decode"}


def line(kernel: str = "k", *, system: str = "triton", at: float = 5.0, seconds: float = 1.0, **more: Any) -> str:
    return json.dumps({"time": at, "system": system, "kernel": kernel, "seconds": seconds, "cached": False} | more)


def append(folder: Path, pid: int, *lines: str, end: str = "\n") -> None:
    with (folder / f"compiles.{pid}.jsonl").open("a") as file:
        file.write("\n".join(lines) + end)


def read(log: CompileLog, **ready: float) -> list[str]:
    return [one.kernel for one in log.read(lambda pid: SERVERS.get(pid, "?"), ready)]


def test_each_line_counts_once_for_its_server(tmp_path: Path) -> None:
    log = CompileLog(tmp_path)
    append(tmp_path, 11, line("a", seconds=2.5), line("a", seconds=0.5))
    append(tmp_path, 12, line("b", system="tilelang"), line("a", cached=True))
    assert read(log) == ["a", "a", "b"]
    assert read(log) == []
    append(tmp_path, 12, line("b", system="tilelang", seconds=3.0))
    assert read(log) == ["b"]
    found = log.document()
    assert (found["since_start"], found["since_ready"], found["seconds"]) == (4, 0, 7.0)
    assert found["kernels"] == [
        {"member": "decode", "system": "tilelang", "kernel": "b", "count": 2, "seconds": 4.0, "since_ready": 0},
        {"member": "prefill", "system": "triton", "kernel": "a", "count": 2, "seconds": 3.0, "since_ready": 0},
    ]
    assert found["from_cache"] == [{"member": "decode", "system": "triton", "count": 1}]
    assert log.seconds() == {("triton", "a"): 2.5, ("tilelang", "b"): 3.0}


def test_a_compilation_that_ends_while_its_server_is_ready_is_late(tmp_path: Path) -> None:
    log = CompileLog(tmp_path)
    append(tmp_path, 11, line("a", at=9.9), line("a", at=10.1))
    append(tmp_path, 12, line("b", at=10.1))
    read(log, prefill=10.0)
    assert {row["kernel"]: row["since_ready"] for row in log.document()["kernels"]} == {"a": 1, "b": 0}
    assert log.document()["since_ready"] == 1


def test_a_process_keeps_its_server_when_it_is_gone(tmp_path: Path) -> None:
    log, servers = CompileLog(tmp_path), dict(SERVERS)
    append(tmp_path, 11, line("a"))
    log.read(lambda pid: servers.get(pid, "?"), {})
    servers.clear()
    append(tmp_path, 11, line("a"))
    log.read(lambda pid: servers.get(pid, "?"), {})
    assert [row["member"] for row in log.document()["kernels"]] == ["prefill"]


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"time": "x"}', line()[:-1], '{"time": 1}', "\0\0"])
def test_a_damaged_line_costs_itself(tmp_path: Path, text: str) -> None:
    log = CompileLog(tmp_path)
    append(tmp_path, 11, text, line("a"))
    assert read(log) == ["a"]


def test_half_a_line_is_waited_for(tmp_path: Path) -> None:
    log = CompileLog(tmp_path)
    append(tmp_path, 11, line("a")[:20], end="")
    assert read(log) == []
    append(tmp_path, 11, line("a")[20:])
    assert read(log) == ["a"]


def test_strict_ends_with_the_first_name_or_what_can_t_be_watched(tmp_path: Path) -> None:
    log = CompileLog(tmp_path)
    append(tmp_path, 11, line("a", cached=True))
    assert log.offence(log.read(SERVERS.__getitem__, {})) == ""
    append(tmp_path, 11, line("a", system="tvm-ffi", seconds=9.54))
    assert log.offence(log.read(SERVERS.__getitem__, {})) == "compiled at run time: tvm-ffi a (9.5 s)"
    assert log.offence([]) == ""
    append(tmp_path, 11, line("", system="tilelang", cached=True, unwatched="AttributeError: x"))
    assert log.offence(log.read(SERVERS.__getitem__, {})) == "tilelang can't be watched (AttributeError: x)"


def test_names_are_bounded(tmp_path: Path) -> None:
    log = CompileLog(tmp_path)
    append(tmp_path, 11, *(line(f"k{number}" + "x" * 500) for number in range(SHOWN + 20)))
    read(log)
    found = log.document()
    assert len(found["kernels"]) == SHOWN and found["since_start"] == SHOWN + 20
    assert max(len(row["kernel"]) for row in found["kernels"]) == 120


def test_metrics_have_every_name(tmp_path: Path) -> None:
    log = CompileLog(tmp_path)
    append(tmp_path, 12, line("a<b>", seconds=2.0, at=6.0), line("c", cached=True))
    read(log, decode=5.0)
    text = render(own.families({"compiles": log.document()}, {}, {}))
    values = {s.name: (s.labels, s.value) for s in samples(text) if s.name.startswith("dsv4_kernel")}
    named = {"role": "decode", "member": "decode", "system": "triton", "kernel": "a<b>"}
    assert values["dsv4_kernel_compiles_total"] == (named, 1.0)
    assert values["dsv4_kernel_compile_seconds_total"] == (named, 2.0)
    assert values["dsv4_kernel_compiles_since_ready_total"] == (named, 1.0)
    assert values["dsv4_kernel_loads_total"] == ({"role": "decode", "member": "decode", "system": "triton"}, 1.0)


def test_other_records_in_the_folder_are_not_read(tmp_path: Path) -> None:
    (tmp_path / f"dsv4-gate.{os.getpid()}.json").write_text("{}")
    assert read(CompileLog(tmp_path)) == [] and read(CompileLog(tmp_path / "absent")) == []


@pytest.mark.parametrize("strict", [False, True])
def test_the_guard_counts_its_own_servers_processes_and_only_a_strict_one_ends(tmp_path: Path, strict: bool) -> None:
    """Of this process's group, as a scheduler is of its server's; READY lies before the line."""
    watch = SimpleNamespace(
        pid=os.getpgid(0), needs_warm_up=True, ready_at=time.monotonic() - 9, warm_at=time.monotonic() - 5
    )
    compiles = Compiles(
        SimpleNamespace(record_dir=str(tmp_path), cache_strict=strict, cache_dir=""),  # type: ignore[arg-type]
        {"decode": watch},  # type: ignore[dict-item]
    )
    assert compiles.look() == ""
    append(tmp_path, os.getpid(), line("a", at=time.time() - 1, seconds=0.5))
    append(tmp_path, 2**22 + 1, line("b", at=time.time() - 1))
    append(tmp_path, os.getpid(), line("c", at=time.time() - 7))  # first, in its warm-up: no client waited
    found = "DSV4_CACHE_STRICT: compiled at run time: triton c (1.0 s)" if strict else ""
    assert compiles.look() == found
    rows = {row["kernel"]: (row["member"], row["since_ready"]) for row in compiles.log.document()["kernels"]}
    assert rows == {"a": ("decode", 1), "b": ("?", 0), "c": ("decode", 0)}


async def test_what_was_compiled_gets_its_digest_while_the_server_runs(tmp_path: Path) -> None:
    cache, records = tmp_path / "cache", tmp_path / "records"
    records.mkdir()
    support.fill(cache)
    config: Any = SimpleNamespace(record_dir=str(records), cache_strict=False, cache_dir=str(cache))
    compiles = Compiles(config, {})
    append(records, 11, line("dpsk_v4_topk_v1_true", system="tvm-ffi", seconds=8.7))
    compiles.look()
    await compiles.seal()
    assert digests.read(cache, support.TVM_FFI) is None  # still warm: it may not be whole yet
    for path in cache.rglob("*"):
        os.utime(path, (time.time() - 100,) * 2)
    await compiles.seal()
    known = digests.read(cache, support.TVM_FFI)
    assert known is not None and (known.seconds, known.origin) == (8.7, "here")


async def test_a_server_that_ended_from_a_damaged_kernel_starts_without_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Another server goes on using the folder: what it may be writing just now stays."""
    cache = tmp_path / "cache"
    support.fill(cache)
    check(cache, 0.0, alone=True)
    library = next((cache / support.TVM_FFI).glob("*.so"))
    library.write_bytes(library.read_bytes()[:-8])
    fresh = support.triton(cache, "FRESH") / "sparse_mla_split_kernel.cubin"
    fresh.write_bytes(fresh.read_bytes()[:-8])
    config: Any = SimpleNamespace(record_dir=str(tmp_path), cache_strict=False, cache_dir=str(cache))
    await Compiles(config, {}).repair()
    assert not library.exists() and fresh.exists()
    assert [record.getMessage().split(":")[0] for record in caplog.records] == ["kernel cache"]
    config.cache_dir = str(tmp_path / "absent")
    await Compiles(config, {}).repair()
