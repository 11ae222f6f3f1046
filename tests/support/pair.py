"""A real pair on the CPU, without the appliance around it: prefill, decode and router of one engine environment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from dsv4_pd.plan.shipped import profiles
from dsv4_pd.run.guard.watch import tree

from support.ports import free_ports

ROOT = Path(__file__).resolve().parents[2]
VENVS = Path(os.environ.get("TEST_VENVS", ROOT / ".venvs")).resolve()
MODEL = ROOT / "demo/model"
START_SECONDS = float(os.environ.get("TEST_START_TIMEOUT_S", "420"))  # 30 s on two idle cores
PROFILE = profiles.read_all(ROOT / "config" / "profiles")["demo-cpu"]


def spelled(flags: Mapping[str, Any]) -> tuple[str, ...]:
    """Flags of a profile's table as a command line takes them."""
    return tuple(word for flag, value in flags.items()
                 for word in ((f"--{flag}",) if value is True else (f"--{flag}", str(value))))  # fmt: skip


# The demo's own server, without what the plan adds for an appliance around it.
COMMON = (
    *("--model-path", str(MODEL), "--served-model-name", PROFILE.defaults["served_model_name"]),
    *("--host", "127.0.0.1", "--context-length", str(PROFILE.defaults["context_length"])),
    *("--max-running-requests", str(PROFILE.defaults["max_running_requests"]), *spelled(PROFILE.engine["common"])),
    *("--enable-metrics", "--enable-cache-report"),
    *("--reasoning-parser", "deepseek-v4", "--tool-call-parser", "deepseekv4"),
    *("--disaggregation-transfer-backend", "nixl"),
)
ENVIRONMENT = {
    **PROFILE.engine_env,
    "SGLANG_PLUGINS": "dsv4-cpu",  # a test names the others that it needs
    "SGLANG_HOST_IP": "127.0.0.1",
    "SGLANG_CUDA_COREDUMP_BEFORE_CRASH_WAIT_SECS": "0",
    "SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT": "10",
    "SGLANG_DISAGGREGATION_WAITING_TIMEOUT": "10",
    "CUDA_VISIBLE_DEVICES": "",
}


class Pair:
    """`with Pair(folder) as pair:` is ready when the router says so; every process is gone afterwards."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        self.records = folder / "records"
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "DSV4_PLUGIN_RECORD_DIR": str(self.records),
            **ENVIRONMENT,
            **environment,
        }
        self.api, self.prefill, self.decode, self.bootstrap, self.router_metrics = free_ports(5)
        self._running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Pair:
        prefill = ("--disaggregation-mode", "prefill", "--disaggregation-bootstrap-port", str(self.bootstrap))
        decode = ("--disaggregation-mode", "decode", *spelled(PROFILE.engine["decode"]))
        self._start("prefill", "engine", "sglang.launch_server", *COMMON, "--port", str(self.prefill), *prefill)
        self._start("decode", "engine", "sglang.launch_server", *COMMON, "--port", str(self.decode), *decode)
        self._start("router", "router", "sglang_router.launch_router", *self._router_arguments())
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _router_arguments(self) -> tuple[str, ...]:
        servers: tuple[str, ...] = ("--prefill", f"http://127.0.0.1:{self.prefill}", str(self.bootstrap))
        servers += ("--decode", f"http://127.0.0.1:{self.decode}", "--pd-disaggregation", "--policy", "round_robin")
        probes = ("--health-check-endpoint", "/ready", "--health-check-interval-secs", "1")
        metrics = ("--prometheus-host", "127.0.0.1", "--prometheus-port", str(self.router_metrics))
        off = ("--disable-circuit-breaker", "--disable-retries")
        return ("--host", "127.0.0.1", "--port", str(self.api), *servers, *probes, *metrics, *off)

    def _start(self, name: str, venv: str, module: str, *arguments: str) -> None:
        # a test run that is killed takes its servers with it
        command = ["setpriv", "--pdeathsig", "KILL", str(VENVS / venv / "bin/python"), "-m", module, *arguments]
        with self.log(name).open("wb") as log:
            self._running.append(
                subprocess.Popen(
                    command, stdout=log, stderr=subprocess.STDOUT, env=self.environment, start_new_session=True
                )
            )

    def _wait(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            for process, name in zip(self._running, ("prefill", "decode", "router"), strict=True):
                if process.poll() is not None:
                    tail = self.log(name).read_text(errors="replace")[-2000:]
                    raise RuntimeError(f"{name} ended with status {process.returncode} while it started:\n{tail}")
            if self.ready():
                return
            time.sleep(0.3)
        raise TimeoutError(f"the pair was not ready after {START_SECONDS:.0f} s; its logs are in {self.folder}")

    def ready(self) -> bool:
        """The router's word is not enough: it counts a server whose own warm-up still runs."""
        urls = (f"{self.api}/readiness", f"{self.prefill}/ready", f"{self.decode}/ready")
        try:
            return all(self.get(f"http://127.0.0.1:{url}")[0] == 200 for url in urls)
        except OSError:
            return False

    def stop(self) -> None:
        groups = [tree.members(process.pid) for process in self._running]
        files = frozenset[str]().union(*(tree.shared_memory(group) for group in groups))  # killed, they leave these
        for process in self._running:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        for process in self._running:
            process.wait()
        tree.unlink(files)

    # what a test asks

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def get(self, url: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def post(self, path: str, body: dict[str, Any], port: int | None = None) -> Any:
        with self._open(path, body, port or self.api) as answer:
            return json.load(answer)

    def chat(self, body: dict[str, Any]) -> dict[str, Any]:
        choice: dict[str, Any] = self.post("/v1/chat/completions", request(body))["choices"][0]
        return choice

    def stream(self, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Each chunk; a stream that ends without [DONE] was cut off and fails the test."""
        with self._open("/v1/chat/completions", request(body) | {"stream": True}, self.api) as answer:
            for line in answer:
                text = line.decode().strip().removeprefix("data: ")
                if text == "[DONE]":
                    return
                if text:
                    yield json.loads(text)
        raise AssertionError("the stream ended without [DONE]")

    def _open(self, path: str, body: dict[str, Any], port: int) -> Any:
        headers = {"content-type": "application/json"}
        url = f"http://127.0.0.1:{port}{path}"
        asked = urllib.request.Request(url, json.dumps(body).encode(), headers, method="POST")
        return urllib.request.urlopen(asked, timeout=120)

    def metric(self, port: int, name: str) -> float:
        """Sum over all label sets of one metric of a server."""
        text = self.get(f"http://127.0.0.1:{port}/metrics")[1]
        lines = [line for line in text.splitlines() if line.split("{")[0].split(" ")[0] == name]
        return sum(float(line.rpartition(" ")[2]) for line in lines)


def request(body: dict[str, Any]) -> dict[str, Any]:
    return {"model": "dsv4-demo", "temperature": 0, **body}
