"""Single SGLang servers on one card, each in a session of its own: it outlives the command that started it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpu import client

ROOT = Path(os.environ.get("RING_ROOT", "/opt/dsv4-pd"))
WORK = Path(os.environ.get("RING_WORK", "/var/tmp/dsv4-ring"))
CACHE = Path(os.environ.get("RING_CACHE", ROOT / "cache"))
MODEL = Path(os.environ.get("RING_MODEL", WORK / "model"))
PYTHON = ROOT / "venvs/engine/bin/python"
TOKENS = 262_144  # a few layers on a large card would make pools beyond what 32-bit offsets reach
PLUGINS = {"stock": "dsv4-ring", "ours": "dsv4-ring,dsv4-kernels,dsv4-gate"}
# MXFP4 experts and block FP8 on a card that has neither FlashInfer's nor CUTLASS's kernels of sm_120.
FLAGS: dict[str, str | None] = {
    "disable-overlap-schedule": "",  # dsv4_ring.force counts a request's tokens
    "enable-custom-logit-processor": "",
    "enable-metrics": "",
    "chunked-prefill-size": "8192",
    "context-length": "40960",
    "cuda-graph-max-bs-decode": "64",
    "fp8-gemm-backend": "triton",
    "max-running-requests": "64",
    "max-total-tokens": str(TOKENS),
    "mem-fraction-static": "0.9",
    "moe-runner-backend": "marlin",
    "reasoning-parser": "deepseek-v4",
    "served-model-name": "m",
    "tool-call-parser": "deepseekv4",
}


@dataclass(frozen=True, slots=True)
class Server:
    """`kernels`: stock or ours. `fault`: planted in ours. Ports: HTTP, and NCCL 5000 above."""

    name: str
    port: int
    kernels: str = "stock"
    fault: str = ""
    cards: str = "0"  # as CUDA_VISIBLE_DEVICES has them
    flags: Mapping[str, str | None] = field(default_factory=dict)  # None: the flag is left away; "": without a value
    env: Mapping[str, str] = field(default_factory=dict)
    model: Path | None = None  # None: MODEL

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        return WORK / f"{self.name}.log"

    @property
    def pid_file(self) -> Path:
        return WORK / f"{self.name}.pid"

    @property
    def loads(self) -> Path:
        return WORK / f"{self.name}.loads.jsonl"

    @property
    def records(self) -> Path:
        return WORK / f"{self.name}.records"

    def command(self) -> list[str]:
        flags = {**FLAGS, **self.flags, "port": str(self.port), "nccl-port": str(self.port + 5000), "host": "127.0.0.1"}
        given = [(name, value) for name, value in sorted(flags.items()) if value is not None]
        words = [word for name, value in given for word in (f"--{name}", value) if word]
        return [str(PYTHON), "-m", "sglang.launch_server", "--model-path", str(self.model or MODEL), *words]

    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "CUDA_VISIBLE_DEVICES": self.cards,
            "DSV4_PLUGIN_RECORD_DIR": str(self.records),
            "HUMMING_CACHE_DIR": str(CACHE / "humming"),
            "RING_FAULT": self.fault,
            "RING_LOADS": str(self.loads),
            "RING_SM120": "1",
            "SGLANG_CACHE_DIR": str(CACHE),
            "SGLANG_CUDA_COREDUMP_BEFORE_CRASH_WAIT_SECS": "0",
            "SGLANG_HOST_IP": "127.0.0.1",
            "SGLANG_JIT_CACHE_DIR": str(CACHE / "jit"),
            "SGLANG_PLUGINS": PLUGINS[self.kernels],
            **self.env,
        }

    def start(self) -> None:
        WORK.mkdir(parents=True, exist_ok=True)
        self.loads.unlink(missing_ok=True)
        with self.log.open("wb") as out:
            process = subprocess.Popen(
                self.command(), env=self.environment(), stdout=out, stderr=out, start_new_session=True
            )
        self.pid_file.write_text(str(process.pid))

    def pid(self) -> int:
        try:
            return int(self.pid_file.read_text())
        except (FileNotFoundError, ValueError):
            return 0

    def alive(self) -> bool:
        """Whether the process runs: one that has ended and was not waited for does not."""
        try:
            state = Path(f"/proc/{self.pid()}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, IndexError):
            return False
        return state != "Z"

    def ready(self, seconds: float) -> float | None:
        """Seconds until /ready; None when it ends or is not ready within the time."""
        answered = client.wait_until(
            lambda: client.call(f"{self.url}/ready", timeout=3)[0] == 200 or not self.alive(), seconds, 0.5
        )
        return answered if answered is not None and self.alive() else None

    def stop(self, seconds: float = 20.0) -> None:
        """End the whole session of the server."""
        pid = self.pid()
        if not pid:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(pid, number)
            except ProcessLookupError:
                break
            if client.wait_until(lambda: not self.alive(), seconds / 2) is not None and number == signal.SIGTERM:
                continue  # what the server left behind in its session is ended as well
        self.pid_file.unlink(missing_ok=True)

    def tail(self, lines: int = 8) -> list[str]:
        try:
            return self.log.read_text(errors="replace").splitlines()[-lines:]
        except FileNotFoundError:
            return []
