"""The front against no front, on one core: `python -m front.bench` in tests/, or `make bench-front`.

Figures of a shared machine are worth little as they are, so each run takes turns, and what counts is the front's own
processor time beside the clock's. Prints one line of JSON for each turn, and the verdict of the bounds at the end;
exits 1 where one is missed. `--only doors`: connections and slots alone, `--only streams`: the rest.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from support.ports import free_ports

from front.bench import doors

HERE = Path(__file__).parent
TICKS = os.sysconf("SC_CLK_TCK")
CHUNKS_PER_S, TTFT_P50_MS, TTFT_P99_MS, MEMORY_MB, SLOT_MS = 8000, 2.0, 5.0, 150, 100.0
Verdict = dict[str, tuple[float, float]]  # name -> found, the most it may be


def compiled(folder: Path, name: str) -> str:
    """A program of this folder."""
    subprocess.run(["cc", "-O2", "-Wall", "-o", str(folder / name), str(HERE / f"{name}.c")], check=True)
    return str(folder / name)


@contextmanager
def started(argv: list[str], port: int, core: int, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A server that listens, held to one core."""
    with log.open("wb") as out:
        process = subprocess.Popen(["taskset", "-c", str(core), *argv], stdout=out, stderr=out)
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield process
    finally:
        process.terminate()
        process.wait(60)


def processor_s(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def peak_mb(pid: int) -> float:
    """The most memory that a process ever had."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) / 1024


def turn(load: str, port: int, pid: int, shape: tuple[int, ...], seconds: int) -> dict[str, Any]:
    """One load, and what it cost the server. `shape`: streams, chunks of each request, idle connections."""
    streams, chunks, idle = shape
    before = processor_s(pid)
    argv = ["taskset", "-c", "1", load, str(port), str(streams), str(seconds), str(chunks), str(idle)]
    found: dict[str, Any] = json.loads(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)
    spent = processor_s(pid) - before
    found |= {"processor_s": round(spent, 2), "chunks_per_processor_s": round(found["chunks"] / max(spent, 0.01))}
    return found | {"peak_mb": round(peak_mb(pid))}


def front_argv(upstream: int, port: int, **options: int) -> list[str]:
    """A front before whatever listens on `upstream`."""
    argv = [sys.executable, "-m", "dsv4_pd.run.front", "--upstream", f"http://127.0.0.1:{upstream}"]
    argv += ["--model", "stub", "--port", str(port)]
    return argv + [word for name, value in options.items() for word in ("--" + name.replace("_", "-"), str(value))]


def measure(step_us: int, shape: tuple[int, ...], turns: int, seconds: int) -> dict[str, list[dict[str, Any]]]:
    """Turns with and without the front, one after the other."""
    stub_port, port = free_ports(2)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        load = compiled(folder, "load")
        front = front_argv(stub_port, port, max_concurrent=1024)
        found: dict[str, list[dict[str, Any]]] = {"direct": [], "front": []}
        with (
            started(
                [compiled(folder, "stub"), str(stub_port), str(step_us)], stub_port, 1, folder / "stub.log"
            ) as stub,
            started(front, port, 0, folder / "front.log") as process,
        ):
            for _ in range(turns):
                found["direct"].append(turn(load, stub_port, stub.pid, shape, seconds))
                found["front"].append(turn(load, port, process.pid, shape, seconds))
    return found


async def at_the_door() -> Verdict:
    """Connections too many, and slots of clients that leave."""
    upstream, port, crowded = free_ports(3)
    with tempfile.TemporaryDirectory() as name:
        log = Path(name) / "log"
        async with doors.holding(upstream):
            with started(front_argv(upstream, port, max_concurrent=doors.SLOTS), port, 0, log):
                free = await doors.slots(port)
            with started(front_argv(upstream, crowded, max_connections=doors.OPEN), crowded, 0, log) as process:
                told = await doors.connections(crowded)
                told["peak_mb"] = round(peak_mb(process.pid))
    print(json.dumps({"load": "clients that leave", **free}), flush=True)
    print(json.dumps({"load": "10,000 connections too many", **told}), flush=True)
    served = told["after"] == "HTTP/1.1 200 OK"
    return {
        "slot_free_p99_ms": (free["slot_free_ms"]["p99"], SLOT_MS),
        "connections_told_nothing": (told["too_many"] - told["told"], 0),
        "not_served_afterwards": (float(not served), 0),
    }


def show(name: str, found: dict[str, list[dict[str, Any]]]) -> None:
    for way, turns in found.items():
        for one in turns:
            print(json.dumps({"load": name, "way": way, **one}), flush=True)


def added_ms(found: dict[str, list[dict[str, Any]]], quantile: str) -> float:
    """Time to the first chunk, with the front over without, by the medians of the turns."""
    with_it, without = (median(one["ttft_us"][quantile] for one in found[way]) for way in ("front", "direct"))
    return float(with_it - without) / 1000


def of_streams(turns: int, seconds: int) -> Verdict:
    """What it costs a stream."""
    # A step of 20 ms is an engine that writes 50 tokens a second for each of its streams.
    steps = measure(20_000, (64, 100, 0), turns, seconds)
    show("64 streams, a step each 20 ms", steps)
    full = measure(4_000, (64, 500, 0), turns, seconds)
    show("64 streams, a step each 4 ms", full)
    many = measure(100_000, (256, 50, 1000), 1, seconds)
    show("256 streams and 1,000 idle", many)
    # What one core can do, whoever else was on it; the clock's own figure stands beside it.
    chunks = median(one["chunks_per_processor_s"] for one in full["front"])
    seen = max(one["chunks_per_s"] for one in full["front"])
    print(json.dumps({"chunks_per_s": {"of a whole core": chunks, "seen": seen, "at least": CHUNKS_PER_S}}))
    return {
        "added_ttft_p50_ms": (added_ms(steps, "p50"), TTFT_P50_MS),
        "added_ttft_p99_ms": (added_ms(steps, "p99"), TTFT_P99_MS),
        "memory_mb": (many["front"][0]["peak_mb"], MEMORY_MB),
        "seconds_for_8000_chunks": (CHUNKS_PER_S / max(chunks, 1), 1.0),
    }


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--only", choices=("streams", "doors"))
    arguments = parser.parse_args()
    verdict: Verdict = {}
    if arguments.only != "doors":
        verdict |= of_streams(arguments.turns, arguments.seconds)
    if arguments.only != "streams":
        verdict |= asyncio.run(at_the_door())
    print(json.dumps({name: {"found": found, "bound": bound} for name, (found, bound) in verdict.items()}))
    return int(any(found > bound for found, bound in verdict.values()))


if __name__ == "__main__":
    sys.exit(main())
