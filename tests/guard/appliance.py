"""A real supervisord with the real guard and the real front over stub servers, in a folder and on ports of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from dsv4_pd.plan.disk import run_mark
from dsv4_pd.plan.front.config import FrontConfig
from dsv4_pd.plan.guard.config import GuardConfig, Limits, ServerConfig
from dsv4_pd.run.guard.watch import tree
from dsv4_pd.run.supervision import rpc, sweep
from support.ports import free_ports

ROOT = Path(__file__).resolve().parents[2]
STUB = Path(__file__).with_name("stub.py")
QUICK = Limits(
    start_timeout=240,
    stall_timeout=60,
    restart_limit=3,
    restart_window=600,
    drain_timeout=5,
    first_canary_timeout=7,
    canary_timeout=7,
    unready_timeout=10,
    silent_timeout=12,
    compile_timeout=15,
    abort_window=10,
    router_timeout=30,
    plugin_timeout=3,
    proof_timeout=20,
    gpu_wait=2,
    max_backoff=2,
)


class Appliance:
    def __init__(self, folder: Path, limits: Limits = QUICK, **changes: Any) -> None:
        self.folder = folder
        self.prefill, self.decode, self.router, self.ops, self.bootstrap, self.api = free_ports(6)
        for name in ("run", "run/log", "run/tmp", "run/plugins", "stubs", "state"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        self.config = replace(self._config(limits), **changes)
        (folder / "run/guard.json").write_text(self.config.to_json())
        (folder / "run/front.guard.key").write_text("the guard's own")
        (folder / "run/front.json").write_text(self._front().to_json())
        (folder / "run/supervisord.conf").write_text(self._supervisord())
        self.behave("prefill")
        self.behave("decode")
        self.behave("router", workers=[self.prefill, self.decode], names=["prefill", "decode"])
        self.process: subprocess.Popen[bytes] | None = None
        self.mark = run_mark.begin(folder / "run")
        self.history: list[tuple[float, str]] = []

    def _config(self, limits: Limits) -> GuardConfig:
        run, logs = self.folder / "run", self.folder / "run/log"
        servers = (
            ServerConfig(
                "prefill",
                f"http://127.0.0.1:{self.prefill}",
                str(logs / "prefill.log"),
                bootstrap_url=f"http://127.0.0.1:{self.bootstrap}",
                bootstrap_port=self.bootstrap,
            ),
            ServerConfig("decode", f"http://127.0.0.1:{self.decode}", str(logs / "decode.log")),
        )
        return GuardConfig(
            version="test",
            fingerprint="plan",
            mode="pd",
            profile="stub",
            servers=servers,
            router_url=f"http://127.0.0.1:{self.router}",
            router_log=str(logs / "router.log"),
            model="stub",
            ops_host="127.0.0.1",
            ops_port=self.ops,
            socket=str(run / "supervisor.sock"),
            health_file=str(run / "health.json"),
            exit_file=str(run / "exit.json"),
            starts_file=str(self.folder / "state/starts.json"),
            record_dir=str(run / "plugins"),
            signatures=str(ROOT / "config/signatures.toml"),
            temp_dir=str(run / "tmp"),
            supervisor_log=str(logs / "supervisord.log"),
            front_url=f"http://127.0.0.1:{self.api}",
            front_log=str(logs / "front.log"),
            front_key_file=str(run / "front.guard.key"),
            limits=limits,
            canary_interval=2.0,
            metrics_interval=0.5,
            health_interval=1.0,
        )

    def _front(self) -> FrontConfig:
        run = self.folder / "run"
        return FrontConfig(
            upstream=f"http://127.0.0.1:{self.router}",
            model="stub",
            port=self.api,
            health_file=str(run / "health.json"),
            guard_key_file=str(run / "front.guard.key"),
            drain_timeout=5.0,
        )

    def _supervisord(self) -> str:
        run = self.folder / "run"
        ports = {"prefill": f"{self.prefill} {self.bootstrap}", "decode": f"{self.decode}", "router": f"{self.router}"}
        text = f"""[supervisord]
nodaemon=true
logfile={run}/log/supervisord.log
pidfile={run}/supervisord.pid
[unix_http_server]
file={run}/supervisor.sock
chmod=0700
[rpcinterface:supervisor]
supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface
[eventlistener:guard]
command={sys.executable} -m dsv4_pd guard --config {run}/guard.json
events=PROCESS_STATE
buffer_size=1000
autorestart=true
stdout_logfile=NONE
stderr_logfile={run}/log/guard.log
"""
        for name, port in ports.items():
            text += f"""[program:{name}]
command={sys.executable} {STUB} {name} {self.folder}/stubs {port}
autostart=false
autorestart={"true" if name == "router" else "false"}
startsecs=1
startretries=0
killasgroup=true
stopwaitsecs=10
redirect_stderr=true
stdout_logfile={run}/log/{name}.log
stdout_logfile_maxbytes=256KB
stdout_logfile_backups=1
"""
        return (
            text
            + f"""[program:front]
command={sys.executable} -m dsv4_pd.run.front --config {run}/front.json
autostart=false
autorestart=true
startsecs=1
startretries=3
killasgroup=true
stopwaitsecs=10
redirect_stderr=true
stdout_logfile={run}/log/front.log
"""
        )

    def behave(self, role: str, **how: Any) -> None:
        """Set a stub's behaviour, replacing the last one."""
        if role == "router":
            how.setdefault("bootstrap", self.bootstrap)
        path = self.folder / "stubs" / f"{role}.json"
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(how))
        fresh.replace(path)

    def gpus(self, **now: Any) -> None:
        """Give the servers a GPU each, and say what NVML says of them."""
        folder = self.folder / "nvml"
        folder.mkdir(exist_ok=True)
        shutil.copy(Path(__file__).with_name("fake_nvml") / "pynvml.py", folder)
        fresh = folder / "nvml.new"
        fresh.write_text(json.dumps({"used": 0, **now}))
        fresh.replace(folder / "nvml.json")
        self.on_cards(**{server.name: f"GPU-{server.name}" for server in self.config.servers})

    def on_cards(self, **uuids: str) -> None:
        """Plan each server on a card."""
        servers = tuple(replace(server, gpus=(uuids[server.name],)) for server in self.config.servers)
        (self.folder / "run/guard.json").write_text(replace(self.config, servers=servers).to_json())

    def blind_router(self, pid: int | None) -> None:
        self.behave("router", workers=[self.prefill, self.decode], names=["prefill", "decode"], blind=pid)

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "supervisor.supervisord", "-c", str(self.folder / "run/supervisord.conf")],
            env={**self.environ(), run_mark.RUN_MARK: self.mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # as `serve` does
        )
        sweep.remember_session(self.folder / "run", self.process.pid)

    def environ(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(self.folder / "nvml")}

    def health(self) -> dict[str, Any]:
        with suppress(OSError, ValueError):
            document: dict[str, Any] = json.loads((self.folder / "run/health.json").read_text())
            return document
        return {}

    def state(self) -> str:
        name = str(self.health().get("state", ""))
        if not self.history or self.history[-1][1] != name:
            self.history.append((time.monotonic(), name))
        return name

    def wait(self, what: Callable[[], Any], seconds: float = 60.0) -> float:
        """Seconds until `what()` is true."""
        begun = time.monotonic()
        while time.monotonic() - begun < seconds:
            if what():
                return time.monotonic() - begun
            time.sleep(0.02)
        raise AssertionError(f"not within {seconds} s; {self.story()}")

    def wait_state(self, *names: str, seconds: float = 60.0) -> float:
        return self.wait(lambda: self.state() in names, seconds)

    def wait_end(self, seconds: float = 60.0) -> dict[str, Any]:
        """The verdict, once supervisord has ended."""
        process = self.process
        assert process is not None
        self.wait(lambda: process.poll() is not None, seconds)
        return self.verdict()

    def verdict(self) -> dict[str, Any]:
        verdict: dict[str, Any] = json.loads((self.folder / "run/exit.json").read_text())
        return verdict

    def pid(self, name: str) -> int:
        if name == "guard":
            with suppress(*rpc.FAILURES):
                return rpc.Waiting(Path(self.config.socket)).process("guard").pid
            return 0
        return int(self.health()["roles"][name]["pid"])

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        os.kill(self.pid(name), number)

    def starts(self, role: str) -> int:
        with suppress(OSError):
            return len((self.folder / "stubs" / f"{role}.pids").read_text().split())
        return 0

    def get(self, path: str) -> tuple[int, dict[str, Any]]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ops}{path}", timeout=5) as got:
                return got.status, json.loads(got.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def complete(self, seconds: float = 30.0) -> int:
        """One request on a client's way; its status, 0 when the connection failed."""
        data = json.dumps({"model": "stub", "prompt": "hello"}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.api}/v1/completions", data, {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=seconds) as got:
                return int(got.status)
        except urllib.error.HTTPError as error:
            return error.code
        except TimeoutError:
            return -1
        except OSError:
            return 0

    def stop(self) -> None:
        """Ask for an orderly stop, as `serve` does."""
        os.kill(self.pid("guard"), signal.SIGUSR1)

    def story(self) -> str:
        """What happened, for a failed test."""
        parts = [f"health {json.dumps(self.health(), indent=1)[:3000]}"]
        for name in ("guard", "supervisord", "prefill", "decode", "router", "front"):
            with suppress(OSError):
                parts.append(f"--- {name}\n{(self.folder / 'run/log' / f'{name}.log').read_text()[-3000:]}")
        return "\n".join(parts)

    def leftovers(self) -> frozenset[int]:
        return frozenset(sweep.find(self.folder / "run"))

    def end(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        tree.kill(self.leftovers())


@contextmanager
def running(folder: Path, limits: Limits = QUICK, **changes: Any) -> Iterator[Appliance]:
    appliance = Appliance(folder, limits, **changes)
    try:
        appliance.start()
        yield appliance
    finally:
        appliance.end()
