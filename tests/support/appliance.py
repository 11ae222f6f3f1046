"""The real appliance as a test starts it: `dsv4-pd demo` in a process of its own, on free ports, in its own folders."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from conftest import VENVS
from dsv4_pd.run.guard.watch import tree
from dsv4_pd.run.supervision import sweep
from dsv4_pd.settings.layout import parse

from support import members

PORTS = ("DSV4_PORT", "DSV4_OPS_PORT", "DSV4_PREFILL_PORT", "DSV4_DECODE_PORT", "DSV4_BOOTSTRAP_PORT",
         "DSV4_PREFILL_NCCL_PORT", "DSV4_DECODE_NCCL_PORT", "DSV4_ROUTER_METRICS_PORT", "DSV4_ROUTER_PORT",
         "DSV4_FRONT_METRICS_PORT")  # fmt: skip
START_S = float(os.environ.get("TEST_START_TIMEOUT_S", "420"))  # 30 s on two idle cores


class Appliance:
    """One running appliance; a context manager that stops it and checks that nothing is left."""

    def __init__(self, root: Path, environ: Mapping[str, str] | None = None) -> None:
        self.root = root
        self.layout = parse((environ or {}).get("DSV4_LAYOUT") or "pd")
        self.ports = members.free_for(self.layout, PORTS)
        self.members = members.by_name(self.layout, self.ports)
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(root),
            "DSV4_RUN_DIR": str(root / "run"),
            "DSV4_STATE_DIR": str(root / "state"),
            "DSV4_ENGINE_PYTHON": str(VENVS / "engine" / "bin" / "python"),
            "DSV4_LOG_FORMAT": "text",
            **{name: str(port) for name, port in self.ports.items()},
            # plugins of a working tree before those that are installed beside the engine
            **{name: value for name, value in os.environ.items() if name == "PYTHONPATH"},
            **(environ or {}),
        }
        self.api = f"http://127.0.0.1:{self.ports['DSV4_PORT']}"
        self.ops = f"http://127.0.0.1:{self.ports['DSV4_OPS_PORT']}"
        self.router = f"http://127.0.0.1:{self.ports['DSV4_ROUTER_PORT']}"
        self.log = root / "console.log"

    def __enter__(self) -> Self:
        self.start()
        try:
            self.wait_for("READY")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start it without waiting."""
        with self.log.open("ab") as out:
            self.process = subprocess.Popen([sys.executable, "-m", "dsv4_pd", "demo"], env=self.environ, stdout=out,
                                            stderr=out, stdin=subprocess.DEVNULL)  # fmt: skip

    def stop(self, number: signal.Signals = signal.SIGTERM, wait_s: float = 90) -> int:
        """End it as an operator would; returns its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(wait_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise

    def health(self) -> dict[str, Any]:
        """The health file, or {} while there is none."""
        try:
            data: dict[str, Any] = json.loads((self.root / "run" / "health.json").read_text())
        except (FileNotFoundError, ValueError):
            return {}
        return data

    def state(self) -> str:
        """The published state."""
        return str(self.health().get("state", "none"))

    def wait_for(self, *states: str, timeout: float = START_S) -> float:
        """Seconds until one of the states is published; fails with the console's last lines."""
        return self.wait_until(lambda: self.state() in states, f"state {' or '.join(states)}", timeout)

    def wait_until(self, true: Callable[[], bool], what: str, timeout: float = START_S) -> float:
        """Seconds until the condition holds."""
        started = time.monotonic()
        while not true():
            waited = time.monotonic() - started
            if waited > timeout or self.process.poll() is not None:
                tail = self.log.read_text(errors="replace")[-4000:]
                raise AssertionError(f"no {what} within {waited:.0f} s (exit {self.process.poll()}):\n{tail}")
            time.sleep(0.05)
        return time.monotonic() - started

    def pid(self, role: str) -> int:
        """The pid of a role's main process."""
        return int(self.health()["roles"][role]["pid"])

    def scheduler(self, role: str) -> int:
        """The pid of the process of a server that computes."""
        for pid in tree.members(self.pid(role)):
            if b"scheduler" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return pid
        raise AssertionError(f"{role} has no scheduler")

    def call(self, path: str, body: Any = None, base: str | None = None, timeout: float = 60) -> tuple[int, Any]:
        """(status, parsed JSON or text) of one request; a dict is sent as a POST."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request((base or self.api) + path, data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return answer.status, _parsed(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, _parsed(error.read())

    def chat(self, content: str, **extra: Any) -> dict[str, Any]:
        """One chat completion's message."""
        body = {"model": "dsv4-demo", "messages": [{"role": "user", "content": content}], "temperature": 0, **extra}
        status, answer = self.call("/v1/chat/completions", body)
        assert status == 200, answer
        message: dict[str, Any] = answer["choices"][0]["message"]
        return message

    def stream(self, body: Mapping[str, Any], timeout: float = 60) -> list[dict[str, Any]]:
        """The chunks of a streamed chat completion; asserts the closing [DONE], whose absence means a dead decode."""
        data = json.dumps({"model": "dsv4-demo", "temperature": 0, **body, "stream": True}).encode()
        request = urllib.request.Request(f"{self.api}/v1/chat/completions", data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            events = [line[6:].strip() for line in answer.read().decode().splitlines() if line.startswith("data: ")]
        assert events[-1] == "[DONE]", events[-3:]
        return [json.loads(event) for event in events[:-1]]

    def metrics(self, role: str) -> dict[str, float]:
        """A server's own counters, summed over labels."""
        _, text = self.call("/metrics", base=f"http://127.0.0.1:{self.members[role].port}")
        found: dict[str, float] = {}
        for line in str(text).splitlines():
            if line and not line.startswith("#"):
                name = line.split("{")[0].split(" ")[0]
                found[name] = found.get(name, 0.0) + float(line.rsplit(" ", 1)[1])
        return found

    def pids(self) -> tuple[int, ...]:
        """Every process of this appliance but the foreground one."""
        return sweep.find(self.root / "run")

    def leftovers(self) -> list[str]:
        """Processes and listening ports of this appliance that are still there."""
        left = [f"process {pid}: {Path(f'/proc/{pid}/cmdline').read_bytes()!r}" for pid in self.pids()]
        ports = set(self.ports.values()) | members.of_servers(self.members)
        return left + [f"port {port}" for port in sorted(ports) if not members.free(port)]


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return raw.decode(errors="replace")
