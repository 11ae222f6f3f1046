"""`dsv4-pd tune` on real servers on the CPU: two layouts, two loads of which it is known who wins."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from dsv4_pd.bench.tune import state
from dsv4_pd.run.supervision import sweep
from support.appliance import PORTS
from support.pair import VENVS
from support.ports import free_ports

pytestmark = [pytest.mark.pair, pytest.mark.slow, pytest.mark.long]
RUN_S = 3600.0
# Answers alone: two servers write, where the pair has one that writes and one with nothing to read.
ANSWERS = [{"input": 24, "output": 96}] * 12
# Long prompts between answers, which count only where their tokens come steadily. A whole server's answers stand still
# while it reads: a prompt takes it as long as about 80 tokens of an answer (docs/bench.md), and it reads most of the
# time.
MIXED = [{"input": 2400, "output": 2}, {"input": 2400, "output": 2}, {"input": 24, "output": 60}] * 8
STEADY = 3.0  # times the wait between two tokens when nothing else runs
ONLY = ("pd:1+1", "replicas:2x1")


def environment(root: Path) -> dict[str, str]:
    ports = dict(zip(PORTS, map(str, free_ports(len(PORTS))), strict=True))
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(root),
        "DSV4_PROFILE": "demo-cpu",
        "DSV4_RUN_DIR": str(root / "run"),
        "DSV4_STATE_DIR": str(root / "state"),
        "DSV4_ENGINE_PYTHON": str(VENVS / "engine/bin/python"),
        **ports,
    }


def command(root: Path, rows: Sequence[object], *more: str) -> list[str]:
    trace = root / "trace.jsonl"
    trace.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [sys.executable, "-m", "dsv4_pd", "tune", "layout", "--trace", str(trace), "--concurrency", "6", "--windows",
            "3", "--everything", *more]  # fmt: skip


def tuned(root: Path, environ: dict[str, str], rows: Sequence[object], *more: str) -> state.State:
    """An experiment to its end, from whatever stands."""
    subprocess.run(command(root, rows, *more), env=environ, check=True, timeout=RUN_S)
    now = state.load(root / "state/tuned/experiment.json")
    assert now is not None and now.done
    assert not [one.why for one in now.candidates if one.verdict in ("wrong", "failed")]
    print({one.name: sum(one.scores) / len(one.scores) for one in now.candidates if one.scores})
    assert set(ONLY) <= {one.name for one in now.candidates if one.scores}
    return now


def test_it_chooses_the_layout_that_is_known_to_win(tmp_path: Path) -> None:
    environ = environment(tmp_path)
    first = tuned(tmp_path, environ, ANSWERS)
    assert first.best == "replicas:2x1"
    plan = [sys.executable, "-m", "dsv4_pd", "plan"]
    said = subprocess.run(plan, env=environ, capture_output=True, text=True, check=True).stdout
    assert re.search(r"^tuned: layout replicas:2x1: measured best here", said, re.MULTILINE)
    assert "program single-2" in said
    alone = first.named("pd:1+1").runs[0].alone_itl
    second = tuned(tmp_path, environ, MIXED, "--itl", f"{STEADY * alone:.4f}")
    assert second.present.name == "replicas:2x1", "the receipt is followed by the next experiment as well"
    assert second.best == "pd:1+1"


def test_a_signal_ends_what_it_started_and_leaves_what_it_knows(tmp_path: Path) -> None:
    environ = environment(tmp_path)
    file = tmp_path / "state/tuned/experiment.json"
    process = subprocess.Popen(command(tmp_path, ANSWERS), env=environ, start_new_session=True)
    try:
        begun = time.monotonic()
        while not _runs(file) and time.monotonic() - begun < RUN_S:
            assert process.poll() is None
            time.sleep(0.5)
        time.sleep(5)  # into the second start
        process.send_signal(signal.SIGINT)
        assert process.wait(180) == 130
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert _runs(file) == 1
    now = state.load(file)
    assert now is not None and not now.done
    assert not sweep.find(tmp_path / "run")
    left = [path.name for path in Path("/proc").iterdir() if path.name.isdigit() and _of(path, str(tmp_path))]
    assert not left, "a process of an appliance that it started"


def _runs(file: Path) -> int:
    now = state.load(file)
    return sum(len(one.runs) for one in now.candidates) if now else 0


def _of(process: Path, root: str) -> bool:
    """Whether a process has our home in its environment, as everything that was started has."""
    try:
        return f"HOME={root}\0".encode() in (process / "environ").read_bytes()
    except OSError:
        return False
