"""Part `tune`: `dsv4-pd tune layout` on two cards under three loads: which layout it chooses, by which figures.

What it chose is held against its own figures (nothing measured was better than what stands), and the receipt against
the next plan. An experiment that its time limit ends is recorded as far as it came: the state file has every finished
run. Kernels by table are no part of this: nothing chooses among them yet.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from statistics import fmean
from typing import Any

from gpu import machine
from gpu.parts import pair
from gpu.parts.layouts import PRODUCT
from gpu.record import Part, folder
from gpu.servers import WORK

LIMIT_S = float(os.environ.get("RING_TUNE_S", "420"))  # of each load; seven minutes are about four starts
# name -> (requests of a window, options); lengths that the ring's model has room for
LOADS: dict[str, tuple[list[tuple[int, int]], tuple[str, ...]]] = {
    "chat": ([(512, 256)] * 48, ("--concurrency", "16")),
    "prompts-beside-streams": ([(12000, 8), (64, 512)] * 12, ("--concurrency", "8", "--itl", "0.05")),
    "reading": ([(8000, 8)] * 24, ("--concurrency", "8")),
}


def main() -> int:
    with Part("tune") as part:
        if len(machine.facts()["cards"]) < 2:
            part.line("not-run", what="tune over two cards", why="this machine has fewer")
            return 0
        for name, (asks, options) in LOADS.items():
            chosen(part, name, asks, options)
    return 0 if not part.failures else 1


def chosen(part: Part, name: str, asks: list[tuple[int, int]], options: tuple[str, ...]) -> None:
    """One experiment in a state folder of its own."""
    state = WORK / "tune" / name
    shutil.rmtree(state, ignore_errors=True)
    state.mkdir(parents=True)
    trace = state / "trace.jsonl"
    trace.write_text("".join(json.dumps({"input": given, "output": wanted}) + "\n" for given, wanted in asks))
    environ = pair.environment() | {"DSV4_LAYOUT": "auto", "DSV4_STATE_DIR": str(state)}
    words = ("tune", "layout", "--trace", str(trace), "--windows", "3", "--everything", *options)
    code, said = ran([*PRODUCT, *words], environ, LIMIT_S)
    part.line("log", of=f"tune {name}", lines=said.splitlines()[-30:])
    file = state / "tuned/experiment.json"
    if not part.expect(file.exists(), f"{name}: has begun", code=code):
        return
    shutil.copy(file, folder() / f"tune-{name}.json")
    now = json.loads(file.read_text())
    figures = {one["name"]: scores(one) for one in now["candidates"] if one["runs"]}
    part.line("tune", load=name, done=now["done"], best=now["best"], figures=figures, refused=refused(now))
    if code:
        part.expect(code == 130 and not now["done"], f"{name}: ended by the time limit alone", code=code)
        return
    part.expect(fmean(figures[now["best"]]) >= 0.98 * max(map(fmean, figures.values())), f"{name}: the best was chosen")
    plan = subprocess.run([*PRODUCT, "plan"], env=environ, capture_output=True, text=True, check=False).stdout
    followed = re.search(rf"^tuned: layout {re.escape(now['best'])}", plan, re.M)
    part.expect(followed is not None, f"{name}: the next plan follows")


def ran(command: list[str], environ: dict[str, str], limit_s: float) -> tuple[int, str]:
    """(exit code, what it said); interrupted as an operator would when the time is over."""
    process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        return_text, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        return_text, _ = process.communicate(timeout=180)
    return process.returncode, return_text


def scores(candidate: dict[str, Any]) -> list[float]:
    return [window["score"] for run in candidate["runs"] for window in run["windows"]]


def refused(now: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: f"{one['verdict']}: {one['why']}" for one in now["candidates"] if one["why"]}
