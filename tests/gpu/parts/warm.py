"""Part `warm`: what a start compiles, what its warm-up ran, and that an exported cache saves it all.

The appliance starts on a copy of RING_CACHE, warms up, and is asked every class of request from outside: nothing may be
compiled then. The same cache, exported and imported into an empty folder, must start without a single compile.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

from gpu import client
from gpu.parts import pair
from gpu.record import Part
from gpu.servers import CACHE, ROOT, WORK

OPS = pair.OPS
START_S = 400.0
PYTHON = ROOT / "venvs/appliance/bin/python"
SLOWER = 1.15  # the first start with what the image would bring, against the second one


def main() -> int:
    with Part("warm") as part:
        first, second = WORK / "warm-first", WORK / "warm-second"
        for folder in (first, second):
            shutil.rmtree(folder, ignore_errors=True)
        if CACHE.is_dir():
            shutil.copytree(CACHE, first, symlinks=True)
        started(part, "filled before", first)
        again = started(part, "the same again", first)
        file = WORK / "cache.tar.gz"
        part.line("export", said=command("export", str(file), cache=first))
        part.line("import", said=command("import", str(file), cache=second))
        fresh = started(part, "imported into an empty folder", second)
        if again and fresh:
            part.expect(fresh["compiled"] == 0, "an imported cache compiles nothing", **fresh)
            part.expect(
                fresh["seconds"] <= SLOWER * again["seconds"],
                f"its start takes at most {SLOWER} times the second one of the other",
                first=fresh["seconds"],
                second=again["seconds"],
            )
    return 0 if not part.failures else 1


def started(part: Part, name: str, cache: Path) -> dict[str, Any] | None:
    """READY, what was compiled by then and afterwards; None where it did not get there."""
    environ = pair.environment() | {"DSV4_CACHE_DIR": str(cache)}
    pair.RUN.mkdir(parents=True, exist_ok=True)
    module = "gpu.one_card" if pair.profile() == pair.ONE_CARD else "dsv4_pd"
    with (WORK / "warm.log").open("wb") as out:
        process = subprocess.Popen([str(PYTHON), "-m", module, "serve"], env=environ, stdout=out, stderr=out,
                                   start_new_session=True)  # fmt: skip
    try:
        seconds = client.wait_until(lambda: pair.ready() or process.poll() is not None, START_S)
        if not part.expect(seconds is not None and process.poll() is None, f"{name}: READY", after_s=seconds):
            part.line("log", lines=(WORK / "warm.log").read_text(errors="replace").splitlines()[-30:])
            return None
        before = client.call(f"{OPS}/status", timeout=10)[1]
        said = command("warm", "--json", cache=cache)
        after = client.call(f"{OPS}/status", timeout=10)[1]
        told(part, name, before, after, said)
        return {"seconds": seconds, "compiled": after["compiles"]["since_start"]}
    finally:
        end(process)


def told(part: Part, name: str, before: dict[str, Any], after: dict[str, Any], said: str) -> None:
    warm_up = {role: found.get("warm_up") for role, found in before["roles"].items() if found.get("warm_up")}
    part.line("start", name=name, warm_up=warm_up, compiles=before["compiles"])
    part.line("classes", name=name, classes=[json.loads(line) for line in said.splitlines() if line.startswith("{")])
    ran = all(one["left"] == 0 and not one["failed"] for one in warm_up.values())
    part.expect(bool(warm_up) and ran, f"{name}: every server ran every class before READY", **warm_up)
    late = [row for row in after["compiles"]["kernels"] if row["since_ready"]]
    part.expect(not late, f"{name}: nothing is compiled in front of clients", late=late)


def command(*words: str, cache: Path) -> str:
    """`dsv4-pd cache ...` with the appliance's settings."""
    environ = pair.environment() | {"DSV4_CACHE_DIR": str(cache)}
    done = subprocess.run([str(PYTHON), "-m", "dsv4_pd", "cache", *words], env=environ, capture_output=True, text=True,
                          timeout=300, check=False)  # fmt: skip
    return done.stdout + (f"\nexit {done.returncode}: {done.stderr[-500:]}" if done.returncode else "")


def end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(pair.STOP_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
