"""Part `layouts`: what prefill and decode on a card each buy, by `dsv4-pd bench`.

Against one server over both cards and against a server on each. The same two cards, one layout after the other; figures
of a tiny model, so only the comparison means anything.
"""

from __future__ import annotations

import os
import signal
import subprocess

from gpu import client, machine
from gpu.parts import pair
from gpu.record import Part, folder
from gpu.servers import ROOT

PRODUCT = [str(ROOT / "venvs/appliance/bin/python"), "-m", "dsv4_pd"]
# The streams must outlast the prompts, else nothing is interfered with.
RUNS = {
    "sweep": ("sweep", "--concurrency", "1,8,32", "--input", "1024", "--output", "256"),
    "long prompts": ("interference", "--streams", "8", "--stream-output", "4000", "--prompts", "4",
                     "--prompt-tokens", "16000"),
}  # fmt: skip
START_S, BENCH_S = 240.0, 100.0
LAYOUTS = os.environ.get("RING_LAYOUTS", "pd:1+1 replicas:2x1 single:2").split()


def main() -> int:
    with Part("layouts") as part:
        if len(machine.facts()["cards"]) < 2:
            part.line("not-run", what="layouts over two cards", why="this machine has fewer")
            return 0
        for layout in LAYOUTS:
            measured(part, layout)
    return 0 if not part.failures else 1


def measured(part: Part, layout: str) -> None:
    process = pair.start(layout)
    try:
        seconds = client.wait_until(lambda: pair.ready() or process.poll() is not None, START_S)
        if part.expect(seconds is not None and process.poll() is None, f"{layout}: READY", after_s=seconds):
            for name, words in RUNS.items():
                bench(part, layout, name, words)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        part.expect(ended(process) == 0, f"{layout}: ends with exit 0")


def bench(part: Part, layout: str, name: str, words: tuple[str, ...]) -> None:
    out = folder() / f"bench-{layout.replace(':', '-')}-{words[0]}.jsonl"
    report = str(out.with_suffix(".html"))
    command = [*PRODUCT, "bench", *words, "--label", layout, "--out", str(out), "--report", report]
    environ = {**os.environ, **pair.environment(layout)}
    try:
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=BENCH_S)
    except subprocess.TimeoutExpired:
        part.expect(False, f"{layout}, {name}: measured within {BENCH_S:g} s")
        return
    part.expect(done.returncode == 0, f"{layout}, {name}: measured", said=done.stdout.splitlines()[-12:], file=out.name)
    if done.returncode:
        part.line("log", of=f"bench {name}", lines=done.stderr.splitlines()[-10:])


def ended(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return process.wait(pair.STOP_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return None
