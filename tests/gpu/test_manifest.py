from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpu import manifest

RECORDS = sorted((Path(__file__).parent / "records").glob("*/kernels-*.json"))


def load(system: str, kernel: str, at: float, seconds: float = 0.0, spec: str = "s") -> manifest.Line:
    return {
        "system": system,
        "kernel": kernel,
        "specialisation": spec,
        "time": at,
        "seconds": seconds,
        "cached": not seconds,
    }


def test_a_kernel_stands_once_with_its_first_request_and_its_compile_time() -> None:
    loads = [
        load("triton", "a", 1),
        load("triton", "a", 5),
        load("triton", "b", 6, 2.5),
        load("triton", "a", 7, spec="t"),
    ]
    ready = [{"kind": "load", "server": "ours", "request": "batch of 8", **load("triton", "b", 6)},
             {"kind": "load", "server": "stock", "request": "other", **load("triton", "a", 1)}]  # fmt: skip
    found = manifest.first_uses(loads, ready, "ours")
    assert [(e["kernel"], e["specialisation"], e["first_used"], e["seconds"]) for e in found] == [
        ("a", "s", "start", None),
        ("b", "s", "batch of 8", 2.5),
        ("a", "t", "start", None),
    ]


def test_a_window_of_time_names_requests_that_came_before_the_part() -> None:
    ready = [{"kind": "window", "server": "ours", "name": "long prompt", "from": 10, "to": 20}]
    found = manifest.first_uses([load("tilelang", "m", 9), load("tilelang", "m", 10)], ready, "ours")
    assert [e["first_used"] for e in found] == ["start", "long prompt"]


def test_build_logs_give_the_seconds(tmp_path: Path) -> None:
    for folder, end in {"jit/sm90a/module/build-1/deps-2": 264000, "cached_ops/norm": 95000}.items():
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / ".ninja_log").write_text(f"# ninja log v7\n1000\t{end}\t1\tx.o\tab\n")
    assert manifest.build_seconds(tmp_path) == {"module": 263.0, "norm": 94.0}
    assert manifest.ninja_seconds("# ninja log v7\n") == 0.0


@pytest.mark.parametrize("record", RECORDS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_recorded_manifests_hold_every_system(record: Path) -> None:
    found = json.loads(record.read_text())
    entries = found["entries"]
    assert found["kernels"] == len(entries) > 50
    assert {"triton", "tilelang", "tvm-ffi", "flashinfer"} == {entry["system"] for entry in entries}
    after = [entry for entry in entries if entry["first_used"] != "start"]
    assert sum(found["after_ready"].values()) == len(after)
