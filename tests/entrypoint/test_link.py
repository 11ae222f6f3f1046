"""link: UCX's table is read, a result is judged, and the real NIXL moves real bytes between two processes."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from dsv4_pd.doctor import link
from dsv4_pd.doctor.base import CheckVerdict
from dsv4_pd.doctor.checks.links import kv_link
from dsv4_pd.doctor.link import run
from dsv4_pd.doctor.link.report import LinkReport, Pair, chosen_transport
from dsv4_pd.errors import HardwareError
from dsv4_pd.host.facts import HostFacts
from dsv4_pd.plan.disk.paths import profiles_dir
from dsv4_pd.plan.placement.place import Placement, place
from dsv4_pd.plan.programs.program import Program
from dsv4_pd.plan.shipped import profiles
from dsv4_pd.run.guard.tell import document
from dsv4_pd.settings.load import load

AGENT = Path(str(link.__file__)).with_name("agent.py")
ROOT = Path(__file__).resolve().parents[2]
ENGINE = Path(os.environ.get("TEST_VENVS", ROOT / ".venvs")) / "engine" / "bin" / "python"
OUR_ENV = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
WELL = LinkReport("cpu", 1 << 20, (Pair(0, 0.7e9, "cma/memory", 0),))


def pair_placement(mode: Any = "pd") -> Placement:
    settings = load({"DSV4_LAYOUT": mode})
    return place(settings, profiles.read_all(profiles_dir())["demo-cpu"], HostFacts((), (), frozenset({0})))


def programs(**env: str) -> list[Program]:
    return [Program(name, (), tuple(env.items()), None, (), (), None, Path("/x")) for name in ("prefill", "decode")]


@pytest.mark.parametrize("config", ["cma/memory", "tcp/lo", "cuda_ipc/cuda"])
def test_transport_is_the_one_for_large_writes(config: str) -> None:
    log = f"""\
[1795966691.5] [vm:1:0]   | remote memory write by ucp_put* from host memory to host |
[1795966691.5] [vm:1:0]   +--------+-------------+-----------------------------------+
[1795966691.5] [vm:1:0]   | Range  | Description |              Config               |
[1795966691.5] [vm:1:0]   | 0..2K  | short       | posix/memory                      |
[1795966691.5] [vm:1:0]   | 2K..inf | zero-copy  | {config}                          |
[1795966691.6] [vm:1:0]   | active message by ucp_am_send* from host memory |
[1795966691.6] [vm:1:0]   | 0..inf  | short | rc_mlx5/other |
"""
    assert chosen_transport(log) == config
    assert chosen_transport("nothing of it") is None


@pytest.mark.parametrize(
    "report,verdict,words",
    [
        (WELL, CheckVerdict.OK, "every byte right, 0.70 GB/s or more over cma/memory"),
        (replace(WELL, pairs=(Pair(0, 0.7e9, "tcp/lo", 0),)), CheckVerdict.WARN, "over tcp/lo"),
        (replace(WELL, pairs=(Pair(0, 0.01e9, "cma/memory", 0),)), CheckVerdict.WARN, "0.01 GB/s"),
        (replace(WELL, device="cuda"), CheckVerdict.WARN, "0.70 GB/s"),
        (replace(WELL, pairs=(*WELL.pairs, Pair(1, 9.0e9, "cma/memory", 2))), CheckVerdict.FAIL, "wrong on rank 1"),
        (replace(WELL, pairs=(), error="decode's end failed"), CheckVerdict.FAIL, "decode's end failed"),
        (None, CheckVerdict.OK, "no link"),
    ],
)
def test_result_is_judged(report: LinkReport | None, verdict: CheckVerdict, words: str) -> None:
    finding = kv_link.judge(report)
    assert finding.verdict is verdict
    assert words in finding.read


def test_single_server_has_no_link() -> None:
    assert run.measure(Path(sys.executable), pair_placement("single"), [], OUR_ENV) is None


def test_interpreter_without_nixl_is_a_named_failure(tmp_path: Path) -> None:
    report = run.prove(Path(sys.executable), pair_placement(), programs(), OUR_ENV, tmp_path / "link.json")
    assert report is not None and "NIXL is not installed" in report.text()
    assert json.loads((tmp_path / "link.json").read_text())["ok"] is False


def test_missing_interpreter_is_a_named_failure() -> None:
    report = run.measure(Path("/nonexistent/python"), pair_placement(), programs(), OUR_ENV)
    assert report is not None and "/nonexistent/python can't be run" in (report.error or "")


def test_a_copy_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = tmp_path / "agent.py"
    stuck.write_text("import time\ntime.sleep(60)\n", encoding="utf-8")
    monkeypatch.setattr(run, "_AGENT", stuck)
    monkeypatch.setattr(run, "_SIZES", {"cpu": (1024, 1, 0.5)})
    report = run.measure(Path(sys.executable), pair_placement(), programs(), OUR_ENV)
    assert report is not None and "no result within" in (report.error or "")


def test_only_corruption_ends_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corrupt = LinkReport("cpu", 8, (Pair(0, 1.0e9, "cma/memory", 3),))
    monkeypatch.setattr(run, "measure", lambda *args: corrupt)
    with pytest.raises(HardwareError, match="bytes arrived wrong on rank 0"):
        run.prove(Path(sys.executable), pair_placement(), programs(), OUR_ENV, tmp_path / "link.json")
    assert json.loads((tmp_path / "link.json").read_text())["ok"] is False


def test_pattern_is_as_long_as_the_gpu_test_asks_and_never_repeats() -> None:
    spec = importlib.util.spec_from_file_location("link_agent", AGENT)
    assert spec and spec.loader
    agent = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(agent)
    size = run._SIZES["cuda"][0]
    data = agent.pattern(size, 7)
    assert len(data) == size and data[:64] not in data[64 : 16 << 20]
    assert agent.pattern(1000, 7) == data[:1000] != agent.pattern(1000, 8)


@pytest.mark.engine
def test_nixl_moves_the_bytes(tmp_path: Path) -> None:
    report = run.prove(ENGINE, pair_placement(), programs(), OUR_ENV, tmp_path / "link.json")
    assert report is not None and not report.error and not report.corrupt
    assert report.transport and not report.over_tcp
    stored = json.loads((tmp_path / "link.json").read_text())
    assert stored["ok"] is True and stored["transport"] == report.transport and stored["bytes_per_s"] > 1e6


# The GPU end with torch's own tensors, moved to host memory: everything but the device itself.
ON_HOST = """
import importlib.util, json, sys, torch
spec = importlib.util.spec_from_file_location("agent", sys.argv[1])
agent = importlib.util.module_from_spec(spec)
spec.loader.exec_module(agent)
empty = torch.empty
torch.empty = lambda *size, device, **more: empty(*size, **more)
torch.cuda.set_device = torch.cuda.synchronize = lambda device: None
agent.Cuda.kind = "DRAM"
agent.main(sys.argv[2], json.loads(sys.argv[3]))
"""


@pytest.mark.engine
def test_gpu_end_works_with_torch_s_tensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = tmp_path / "agent.py"
    stand_in.write_text(f"import sys\nsys.argv[1:1] = [{str(AGENT)!r}]\nexec({ON_HOST!r})\n", encoding="utf-8")
    monkeypatch.setattr(run, "_AGENT", stand_in)
    monkeypatch.setattr(run, "_SIZES", {"cuda": (9 << 20, 2, 120.0)})
    placement = pair_placement()
    on_gpus = replace(placement, device="cuda", roles=tuple(replace(r, tensor_parallel=2) for r in placement.roles))
    report = run.measure(ENGINE, on_gpus, programs(), OUR_ENV)
    assert report is not None and not report.error and not report.corrupt, report
    assert [pair.rank for pair in report.pairs] == [0, 1] and report.device == "cuda"


@pytest.mark.engine
def test_tcp_is_called_tcp() -> None:
    report = run.measure(ENGINE, pair_placement(), programs(UCX_TLS="tcp"), OUR_ENV)
    assert report is not None and report.over_tcp, report
    assert kv_link.judge(report).verdict is CheckVerdict.WARN


@pytest.mark.engine
def test_wrong_bytes_are_seen() -> None:
    """prefill writes another pattern than decode expects: what a corrupting path would do."""
    spec = {"device": "cpu", "ranks": [0], "bytes": 8 << 20, "rounds": 1, "seed": 1}
    ends = {}
    for role, seed in (("decode", 1), ("prefill", 2)):
        command = [str(ENGINE), str(AGENT), role, json.dumps({**spec, "seed": seed})]
        ends[role] = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=OUR_ENV)
    decode, prefill = ends["decode"], ends["prefill"]
    assert decode.stdout and decode.stdin and prefill.stdout and prefill.stdin

    def hear(lines: object) -> dict[str, int]:
        return next(json.loads(line) for line in lines if line.startswith("{"))  # type: ignore[attr-defined]

    def say(pipe: object, message: dict[str, int]) -> None:
        print(json.dumps(message), file=pipe, flush=True)  # type: ignore[call-overload]

    say(prefill.stdin, hear(decode.stdout))
    hear(prefill.stdout)
    say(decode.stdin, {})
    found = hear(decode.stdout)
    assert found["wrong"] == found["pieces"] == 2
    say(decode.stdin, {})
    say(prefill.stdin, {})
    assert decode.wait(30) == prefill.wait(30) == 0


def test_status_shows_what_the_test_found(tmp_path: Path) -> None:
    config = SimpleNamespace(health_file=str(tmp_path / "health.json"))
    world = SimpleNamespace(link={"bytes_per_s": 0.4e9})
    assert document.link(config, world) == {"backend": "nixl", "bytes_per_s": 0.4e9, "test": None}  # type: ignore[arg-type]
    (tmp_path / "link.json").write_text(WELL.to_json(), encoding="utf-8")
    test = document.link(config, world)["test"]  # type: ignore[arg-type]
    assert test["ok"] is True and test["transport"] == "cma/memory" and test["bytes_per_s"] == 0.7e9
    (tmp_path / "link.json").write_text("{", encoding="utf-8")
    assert document.link(config, world)["test"] is None  # type: ignore[arg-type]


# An end that does what it is told, beside libraries that print: JSON of their own, half of it, bytes that are no text.
CHATTY = """
import json, sys
role = sys.argv[1]
out = sys.stdout.buffer
def say(message):
    out.write(b'{half\\n{"level": "info"}\\n\\xff\\xfe\\n[1]\\n' + json.dumps(message).encode() + b"\\n")
    out.flush()
if role == "decode":
    say({"rank": 0, "metadata": ""}); sys.stdin.readline(); say({"rank": 0, "wrong": 0})
else:
    sys.stdin.readline(); say(ANSWER)
sys.stdin.readline()
"""


def with_agent(folder: Path, monkeypatch: pytest.MonkeyPatch, answer: str) -> LinkReport | None:
    agent = folder / "agent.py"
    agent.write_text(CHATTY.replace("ANSWER", answer), encoding="utf-8")
    monkeypatch.setattr(run, "_AGENT", agent)
    monkeypatch.setattr(run, "_SIZES", {"cpu": (1024, 1, 20.0)})
    return run.measure(Path(sys.executable), pair_placement(), programs(), OUR_ENV)


def test_what_libraries_print_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = with_agent(tmp_path, monkeypatch, '{"rank": 0, "seconds": [0.5]}')
    assert report is not None and report.error is None and report.pairs[0].wrong_pieces == 0


@pytest.mark.parametrize("answer", ['{"rank": 0}', '{"rank": 0, "seconds": []}', '{"rank": 0, "seconds": [0]}'])
def test_an_answer_without_sense_is_a_named_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    report = with_agent(tmp_path, monkeypatch, answer)
    assert report is not None and "an invalid answer" in (report.error or "")


def test_no_room_for_the_test_s_own_files_is_a_named_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "/tmp/dsv4-link-x")

    monkeypatch.setattr(tempfile, "TemporaryDirectory", full)
    report = run.measure(Path(sys.executable), pair_placement(), programs(), OUR_ENV)
    assert report is not None
    assert report.error == "the test could not be carried out: /tmp/dsv4-link-x: No space left on device"


def test_a_result_that_cannot_be_written_is_still_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run folder that is full, or gone; corruption ends the start all the same."""
    nowhere = tmp_path / "none" / "link.json"
    monkeypatch.setattr(run, "measure", lambda *args: WELL)
    report = run.prove(Path(sys.executable), pair_placement(), programs(), OUR_ENV, nowhere)
    assert report is WELL
    monkeypatch.setattr(run, "measure", lambda *args: replace(WELL, pairs=(Pair(0, 1.0e9, "cma/memory", 3),)))
    with pytest.raises(HardwareError):
        run.prove(Path(sys.executable), pair_placement(), programs(), OUR_ENV, nowhere)
