"""Part `layouts`: what prefill and decode on a card each buy, against one server over both cards, by `dsv4-pd bench`.

The same two cards, one layout after the other; figures of a tiny model, so only the comparison means anything. Replicas
are measured once the product has them.
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
    "long prompts": ("interference", "--streams", "8", "--stream-output", "8000", "--prompts", "4",
                     "--prompt-tokens", "16000"),
}  # fmt: skip
START_S, BENCH_S = 240.0, 100.0


def main() -> int:
    with Part("layouts") as part:
        if len(machine.facts()["cards"]) < 2:
            part.line("not-run", what="layouts over two cards", why="this machine has fewer")
            return 0
        for mode in ("pd", "single"):
            measured(part, mode)
        part.line("not-run", what="two replicas of one card", why="the product has no such layout yet")
    return 0 if not part.failures else 1


def measured(part: Part, mode: str) -> None:
    process = pair.start(mode)
    try:
        seconds = client.wait_until(lambda: pair.ready() or process.poll() is not None, START_S)
        if part.expect(seconds is not None and process.poll() is None, f"{mode}: READY", after_s=seconds):
            for name, words in RUNS.items():
                bench(part, mode, name, words)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        part.expect(ended(process) == 0, f"{mode}: ends with exit 0")


def bench(part: Part, mode: str, name: str, words: tuple[str, ...]) -> None:
    out = folder() / f"bench-{mode}-{words[0]}.jsonl"
    command = [*PRODUCT, "bench", *words, "--label", mode, "--out", str(out), "--report", str(out.with_suffix(".html"))]
    environ = {**os.environ, **pair.environment(mode)}
    try:
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=BENCH_S)
    except subprocess.TimeoutExpired:
        part.expect(False, f"{mode}, {name}: measured within {BENCH_S:g} s")
        return
    part.expect(done.returncode == 0, f"{mode}, {name}: measured", said=done.stdout.splitlines()[-12:], file=out.name)
    if done.returncode:
        part.line("log", of=f"bench {name}", lines=done.stderr.splitlines()[-10:])


def ended(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return process.wait(pair.STOP_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return None
