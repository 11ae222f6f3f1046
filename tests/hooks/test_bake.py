"""The steps that fill the engine's caches for a card that is not there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ROOT, VENVS
from dsv4_bake import ahead, card, listed, simulate

HEADER = "#include <tvm/ffi/container/tensor.h>\nint answer(int x) { return x + 41; }\n"
# Two of the engine's own builds, for the host: the only ones that need no CUDA compiler.
BUILD = """
import sys
from types import SimpleNamespace
from dsv4_hooks import compiles
compiles.start()
from dsv4_bake import tvm_ffi
from sglang.kernels.jit.utils.compile import load_jit
def made(name):
    return load_jit(name, cpp_files=[sys.argv[1]], cpp_wrappers=[("answer", "answer")])
sys.modules["modules_of_a_test"] = SimpleNamespace(made=made)
rows = [{"call": "modules_of_a_test:made", "arguments": [name]} for name in ("one", "two")]
assert tvm_ffi.build(rows, 2) == 2
"""


def test_rows_of_a_step_and_their_arguments() -> None:
    rows = listed.rows(listed.FILE, "tvm_ffi")
    assert len(rows) >= 15 and all(row["step"] == "tvm_ffi" for row in rows)
    assert [row["kernel"] for row in listed.rows(listed.FILE, "tvm_ffi", ["clamp"])] == ["clamp_position_int64_t"]
    names = [{row["kernel"] for row in listed.rows(listed.FILE, "flashinfer", long=long)} for long in (False, True)]
    assert "fused_moe_120" in names[1] - names[0] and {"norm", "sampling", "pcie_ipc_comm"} == names[0] < names[1]
    assert [listed.value(one) for one in (5, True, "text", "")] == [5, True, "text", ""]
    assert listed.resolve("json:dumps") is json.dumps


def test_one_process_at_a_time_builds_ahead(tmp_path: Path) -> None:
    folder = tmp_path / "jit"
    command = [sys.executable, "-c", "import sys, time; print(sys.argv[1:]); time.sleep(60)"]
    first = ahead.run(folder, command)
    assert first is not None
    try:
        assert ahead.run(folder, command) is None
    finally:
        first.kill()
        first.wait()
    deadline = time.monotonic() + 20
    while (again := ahead.run(folder, command)) is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert again is not None
    again.kill()
    again.wait()


def test_the_builder_is_told_where_and_how_wide(tmp_path: Path) -> None:
    out = tmp_path / "said"
    command = [sys.executable, "-c", f"import sys; open({str(out)!r}, 'w').write(repr(sys.argv[1:]))"]
    process = ahead.run(tmp_path / "jit", command)
    assert process is not None and process.wait(60) == 0
    wide = ahead.workers(len(os.sched_getaffinity(0)))
    assert out.read_text() == repr([str(tmp_path / "jit"), "--workers", str(wide)])


@pytest.mark.parametrize("found", [None, (9, 0), (12, 1)])
def test_only_the_listed_card_gets_a_head_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: tuple[int, int] | None
) -> None:
    monkeypatch.setattr(ahead, "capability", lambda: found)
    monkeypatch.setattr(ahead, "run", lambda *_: pytest.fail("started"))
    assert ahead.start({ahead.VARIABLE: str(tmp_path)}) is None
    monkeypatch.setattr(ahead, "capability", lambda: ahead.CAPABILITY)
    assert ahead.start({}) is None


def test_a_folder_that_can_t_be_written_costs_the_head_start_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(ahead, "capability", lambda: ahead.CAPABILITY)
    assert ahead.start({ahead.VARIABLE: str(tmp_path / "file" / "jit")}) is None


@pytest.mark.engine
def test_the_engine_s_modules_are_built_side_by_side(tmp_path: Path) -> None:
    """One after the other, as the engine does it, the second would begin when the first has ended."""
    header = tmp_path / "probe.h"
    header.write_text(HEADER)
    environ = os.environ | {
        "PYTHONPATH": str(ROOT / "hooks"),
        "DSV4_PLUGIN_RECORD_DIR": str(tmp_path / "records"),
        "SGLANG_JIT_CACHE_DIR": str(tmp_path / "jit"),
    }
    subprocess.run([str(VENVS / "engine/bin/python"), "-c", BUILD, str(header)], env=environ, check=True, timeout=580)
    (file,) = (tmp_path / "records").glob("compiles.*.jsonl")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    spans = sorted((line["time"] - line["seconds"], line["time"]) for line in lines if not line["cached"])
    assert len(spans) == 2
    assert spans[1][0] < spans[0][1] - 0.5 * (spans[0][1] - spans[0][0])


def seen(folder: Path, *lines: dict[str, object]) -> Path:
    text = "".join(json.dumps({"system": "triton", "kernel": "", "cached": True, **line}) + "\n" for line in lines)
    (folder / "compiles.7.jsonl").write_text(text)
    return folder


@pytest.mark.parametrize(
    ("lines", "status", "good", "said"),
    [
        ([{"kernel": "a"}, {"kernel": "b"}], 0, True, "2 found, 0 compiled"),
        ([{"kernel": "a"}, {"kernel": "b", "cached": False}], 0, False, "not found: b (1)"),
        ([], 0, False, "0 found"),  # it asked for nothing: the watch or the step is broken
        ([{"kernel": "a"}], 1, False, "exit 1"),
        ([{"kernel": "a"}, {"unwatched": "AttributeError: x"}], 0, False, "can't be watched: AttributeError: x"),
    ],
)
def test_a_simulated_start_finds_all_or_names_what_it_did_not(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    lines: list[dict[str, object]],
    status: int,
    good: bool,
    said: str,
) -> None:
    assert simulate.told("triton", seen(tmp_path, *lines), status) is good
    assert said in capsys.readouterr().out


def test_every_compiler_is_asked_where_a_server_looks(tmp_path: Path) -> None:
    words = {name: simulate.command(name, tmp_path, tmp_path / "jit", [16, 32]) for name in simulate.SYSTEMS}
    assert words["tvm-ffi"][1] == str(tmp_path / "jit") and words["tilelang"][1] == str(tmp_path)
    assert words["triton"][1:] == [str(tmp_path / "triton"), "--heads", "16", "32"]
    assert words["flashinfer"][-1] == "--find"
    assert all((ROOT / "hooks" / f"{w[0].replace('.', '/')}.py").exists() or w[0] == "dsv4_kernels.aot.warm"
               for w in words.values())  # fmt: skip


def test_what_a_step_compiles_is_seen_from_outside(tmp_path: Path) -> None:
    """A stand-in module in the place of a step: the watch is on before its first line."""
    (tmp_path / "step.py").write_text(
        "import sys\nfrom dsv4_hooks import compiles\nlog = compiles.Log(compiles.folder_of("
        "__import__('os').environ['DSV4_PLUGIN_RECORD_DIR']))\n"
        "log.found('triton', 'a', 0.1)\nlog.compiled('triton', sys.argv[1], 2.0)\n"
    )
    environ = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT / 'hooks'}", "DSV4_PLUGIN_RECORD_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", simulate._WATCHED, "step", "b"], env=environ, check=True)
    assert simulate.told("triton", tmp_path, 0) is False


@pytest.mark.engine
def test_the_card_s_stand_in_decides_what_the_engine_decides_on_such_a_card() -> None:
    """The engine sets these when it resolves its arguments; a step builds without doing that."""
    (source,) = (VENVS / "engine").glob("lib/python3*/site-packages/sglang/srt/arg_groups/model_hook.py")
    block = source.read_text().split("if get_platform().is_sm120:\n", 1)[1].split("elif get_platform()", 1)[0]
    found = {name: "01"[value == "True"] for name, value in re.findall(r"envs\.(\w+)\.set\((True|False)\)", block)}
    assert len(found) >= 7 and found == card.ENGINE_SETS
