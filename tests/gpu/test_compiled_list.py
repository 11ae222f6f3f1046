"""hooks/dsv4_bake/compiled.toml against the recorded run that it comes from, and against the engine's own builders."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, VENVS

LIST = tomllib.loads((ROOT / "hooks/dsv4_bake/compiled.toml").read_text(encoding="utf-8"))
KERNELS: list[dict[str, Any]] = LIST["kernel"]
RECORD = ROOT / "tests/gpu/records/2026-11-30-h200"
STEPS = ROOT / "hooks/dsv4_bake"
RESOLVE = """
import importlib, inspect, json, sys
for call, arguments in json.load(sys.stdin):
    module, name = call.split(":")
    function = getattr(importlib.import_module(module), name)
    inspect.signature(function).bind(*arguments)
    print(call)
"""


def test_every_recorded_kernel_is_in_the_list_with_its_figures() -> None:
    listed = {(one["system"], one["kernel"]): one for one in KERNELS}
    assert len(listed) == len(KERNELS)
    for recorded in json.loads((RECORD / "jit-cache.json").read_text()):
        one = listed[recorded["system"], recorded["kernel"]]
        assert (one["entries"], one.get("seconds")) == (recorded["entries"], recorded["seconds"])


@pytest.mark.parametrize("record", sorted(RECORD.glob("kernels-*.json")), ids=lambda path: str(path.stem))
def test_every_kernel_that_a_server_used_is_in_the_list(record: Path) -> None:
    listed = {(one["system"], one["kernel"]) for one in KERNELS}
    for used in json.loads(record.read_text())["entries"]:
        assert (used["system"], used["kernel"].removeprefix("sgl_kernel_jit_").rstrip("_")) in listed


def test_each_has_a_step_or_is_left_with_a_reason_or_never_asked_for() -> None:
    for one in KERNELS:
        fates = [name for name in ("step", "left", "absent") if name in one]
        assert len(fates) == 1, one
        assert fates == ["step"] or len(one[fates[0]]) > 30, one
        if fates == ["step"] and one["step"] != "ours":
            assert (STEPS / f"{one['step']}.py").exists(), one
            assert len(one.get("cost", "why it is not in the image")) > 20
            assert one["call"] and isinstance(one["arguments"], list)
    assert Counter(one["system"] for one in KERNELS if "step" in one)["tvm-ffi"] >= 15


def test_it_is_of_the_engine_that_the_image_has() -> None:
    found = re.search(r"^sglang==(\S+)$", (ROOT / "docker/engine.in").read_text(), re.MULTILINE)
    assert found and found[1] == LIST["engine"]


@pytest.mark.engine
def test_the_engine_has_each_builder_and_it_takes_these_arguments() -> None:
    calls = [[one["call"], one["arguments"]] for one in KERNELS
             if one.get("step") == "tvm_ffi" and ":" in one["call"]]  # fmt: skip
    done = subprocess.run(
        [str(VENVS / "engine/bin/python"), "-c", RESOLVE], input=json.dumps(calls), text=True, capture_output=True,
        env=os.environ | {"PYTHONWARNINGS": "ignore"}, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == [call for call, _ in calls] and len(calls) >= 15
