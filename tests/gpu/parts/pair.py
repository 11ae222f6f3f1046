"""Part `pair`: the appliance on real cards: READY, KV link, answers, a killed scheduler, nothing left behind.

On one card both roles share it (`gpu.one_card`); with two or more, each has its own. Never a claim about speed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpu import client, machine
from gpu.parts import answers
from gpu.parts.questions import QUESTIONS
from gpu.record import Part
from gpu.servers import CACHE, MODEL, ROOT, WORK

API, OPS = "http://127.0.0.1:8000", "http://127.0.0.1:8001"
RUN = WORK / "pair"
START_S, RECOVERY_S, STOP_S = 300.0, 200.0, 60.0
IN_FLIGHT_S = 15.0  # the longest that a request of a dead decode may hang
LINK_TIMEOUT = "60s"


ONE_CARD, TWO_CARDS = "ring-one-card", "ring-two-cards"


def profile() -> str:
    return ONE_CARD if len(machine.facts()["cards"]) == 1 else TWO_CARDS


def environment(layout: str = "pd:1+1") -> dict[str, str]:
    own = {
        "DSV4_CACHE_DIR": str(CACHE),
        "DSV4_HOST": "127.0.0.1",
        "DSV4_LINK_TIMEOUT": LINK_TIMEOUT,
        "DSV4_LOG_FORMAT": "text",
        "DSV4_LAYOUT": layout,
        "DSV4_MODEL": str(MODEL),
        "DSV4_PROFILE": profile(),
        "DSV4_RUN_DIR": str(RUN),
        "DSV4_SERVED_MODEL_NAME": "m",
        "DSV4_STATE_DIR": str(WORK / "state"),
        "RING_LOADS": str(WORK / "pair.loads.jsonl"),
    }
    return {name: value for name, value in os.environ.items() if not name.startswith("DSV4_")} | own


def start(layout: str = "pd:1+1", own: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """`dsv4-pd serve` in a session of its own, with settings of a part's own; its console goes to pair.log."""
    RUN.mkdir(parents=True, exist_ok=True)
    python = str(ROOT / "venvs/appliance/bin/python")
    module = "gpu.one_card" if profile() == ONE_CARD else "dsv4_pd"
    with (WORK / "pair.log").open("wb") as out:
        return subprocess.Popen([python, "-m", module, "serve"], env=environment(layout) | dict(own or {}), stdout=out,
                                stderr=out, start_new_session=True)  # fmt: skip


def ready() -> bool:
    return client.call(f"{OPS}/readyz", timeout=2)[0] == 200


def main() -> int:
    with Part("pair") as part:
        before = machine.memory_used()
        process = start()
        try:
            seconds = client.wait_until(lambda: ready() or process.poll() is not None, START_S)
            up = part.expect(
                seconds is not None and process.poll() is None, "READY", after_s=seconds, profile=profile()
            )
            if up:
                serve(part, process)
        finally:
            end(part, process, before)
    return 0 if not part.failures else 1


def serve(part: Part, process: subprocess.Popen[bytes]) -> None:
    status = client.call(f"{OPS}/status", timeout=10)[1]
    part.line(
        "status", **{k: status[k] for k in status if k in ("state", "kv_link", "link", "versions", "kernels", "roles")}
    )
    answers.compared(part, API)
    if profile() == ONE_CARD:
        # Seen on 2026-11-30: the guard gives up (exit 75), because the other role still holds the card.
        part.line(
            "not-run",
            what="a killed scheduler",
            why="a role is restarted once its cards are free; here they are shared",
        )
        return
    for role in ("decode", "prefill"):
        killed(part, role, process)


def scheduler(role: str) -> int:
    """Pid of a role's scheduler: a child of the server that listens on the role's port."""
    status = client.call(f"{OPS}/status", timeout=5)[1]
    server = int(status["roles"][role]["pid"])
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rsplit(")", 1)[1].split()[1])
            name = (path / "cmdline").read_bytes().split(b"\0")[0]
        except (OSError, IndexError, ValueError):
            continue
        if name.startswith(b"sglang::scheduler") and ancestor(parent, server):
            return int(path.name)
    raise RuntimeError(f"no scheduler below {role}'s server, pid {server}")


def ancestor(pid: int, wanted: int) -> bool:
    while pid > 1:
        if pid == wanted:
            return True
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError, ValueError):
            return False
    return False


class Requests:
    """Long answers in threads of their own, and how each of them ended."""

    BODY = {"text": "Count.", "sampling_params": {"max_new_tokens": 20000, "ignore_eos": True, "temperature": 0}}

    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []
        self.threads: list[threading.Thread] = []

    def send(self, name: str) -> None:
        self.threads.append(threading.Thread(target=self.ask, args=(name,)))
        self.threads[-1].start()

    def ask(self, name: str) -> None:
        status, answer = client.call(f"{API}/generate", self.BODY, 150)
        self.found.append({"request": name, "status": status, "ended": time.monotonic(), "answer": str(answer)[:120]})

    def ended(self, since: float) -> list[dict[str, Any]]:
        """Once all have ended: seconds since a moment instead of the clock's."""
        for thread in self.threads:
            thread.join(160)
        return [item | {"ended": round(item["ended"] - since, 1)} for item in self.found]


def killed(part: Part, role: str, process: subprocess.Popen[bytes]) -> None:
    """Requests in flight end soon, the loss is noticed, and the pair serves again."""
    requests = Requests()
    for number in range(4):
        requests.send(f"in flight {number}")
    time.sleep(3)
    os.kill(scheduler(role), signal.SIGKILL)
    begun = time.monotonic()
    requests.send("sent after the kill")
    noticed = client.wait_until(lambda: not ready(), 30, 0.05)
    recovered = client.wait_until(lambda: ready() or process.poll() is not None, RECOVERY_S)
    found = requests.ended(begun)
    part.line("killed", role=role, noticed_s=noticed, recovered_s=recovered, requests=found)
    part.expect(noticed is not None, f"{role}: the loss is noticed", seconds=noticed)
    longest = failed_last(found)
    what = f"{role}: requests that fail do so within {IN_FLIGHT_S:g} s of the kill"
    part.expect(longest <= IN_FLIGHT_S, what, longest_s=longest, served=sum(item["status"] == 200 for item in found))
    part.expect(ready(), f"{role}: READY again after its scheduler was killed", seconds=recovered)
    status, answer = answers.chat(API, QUESTIONS[0][0])
    part.expect(status == 200, f"{role}: an answer after recovery", answer=str(answer)[:200])


def failed_last(found: list[dict[str, Any]]) -> float:
    """Seconds until the last request failed: one that decode goes on writing while prefill restarts is no loss."""
    return max((item["ended"] for item in found if item["status"] != 200), default=0.0)


def end(part: Part, process: subprocess.Popen[bytes], before: list[int]) -> None:
    """TERM, and what is left on the card."""
    begun = time.monotonic()
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        code = process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        code = None
    seconds = round(time.monotonic() - begun, 1)
    part.expect(code == 0, "TERM ends it with exit 0", status=code, seconds=seconds)
    margin = 64  # MiB: the driver's own
    freed = client.wait_until(lambda: clean(before, margin), 10, 0.2)
    left = client.wait_until(lambda: not leftovers(), 3, 0.2)
    part.expect(freed is not None and left is not None, "nothing is left on the card", before_mib=before,
                after_mib=machine.memory_used(), processes=leftovers())  # fmt: skip
    lines = (WORK / "pair.log").read_text(errors="replace").splitlines()
    part.line("log", lines=[line for line in lines if "dsv4-pd |" in line or "guard" in line][-60:])
    if part.failures:
        part.line("log", lines=lines[-20:])
        part.line("log", of="servers", lines=server_lines())


def clean(before: list[int], margin: int) -> bool:
    return all(now <= then + margin for now, then in zip(machine.memory_used(), before, strict=True))


def leftovers() -> list[str]:
    """Processes whose command names the pair's run folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(RUN) in words:
            found.append(words[:120])
    return found


def server_lines() -> list[str]:
    return [
        json.dumps(line)
        for path in sorted((RUN / "log").glob("*.log"))
        for line in path.read_text(errors="replace").splitlines()[-12:]
    ]
