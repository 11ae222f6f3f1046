"""A real router before servers of our own making, with the command line and the files that the plan has for it."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
from conftest import VENVS
from dsv4_pd.plan.plan import Plan
from dsv4_pd.run import files
from support.plans import make, no_gpu
from support.ports import free_ports

CLIENT = "a-clients-key"
# What both routers ask a server of SGLang when they take it in; smg tells by it which engine it is.
ABOUT = {"version": "0.5.23", "model_path": "stub", "served_model_name": "stub", "tp_size": 1, "internal_states": []}
OPEN = ("/ready", "/health")  # the engine's own paths without a key


@dataclass
class Worker:
    """A server that answers everybody the same; where it has a key, as the engine: 401 without it.

    It hides all that a real pair does with a prompt; who is asked, and with whose key, is the router's doing alone.
    """

    name: str
    key: str | None = None
    heard: list[tuple[str, str, str]] = field(default_factory=list)  # method, path, key

    def __enter__(self) -> Worker:
        worker = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status, body = worker.answer(self.command, self.path, self.headers.get("Authorization") or "")
                raw = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            do_POST = do_GET  # noqa: N815

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    @property
    def port(self) -> int:
        return int(self.server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(self, method: str, path: str, authorization: str) -> tuple[int, dict[str, Any]]:
        self.heard.append((method, path, authorization.removeprefix("Bearer ")))
        if self.key and path not in OPEN and authorization != f"Bearer {self.key}":
            return 401, {"error": "Unauthorized"}
        if method == "POST":
            return 200, {"choices": [{"index": 0, "text": self.name, "finish_reason": "stop"}], "text": self.name}
        models = {"object": "list", "data": [{"id": "stub", "object": "model", "owned_by": "sglang"}]}
        return 200, models if path == "/v1/models" else ABOUT

    def prompts(self) -> int:
        """Generations that it was asked for."""
        return sum(method == "POST" and path.startswith(("/v1/", "/generate")) for method, path, _ in self.heard)


@dataclass
class Router:
    """One running router."""

    port: int
    process: subprocess.Popen[bytes]
    control_key: str
    plan: Plan

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def call(self, method: str, path: str, body: Any = None, key: str | None = None) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        with httpx2.Client(trust_env=False, timeout=20) as client:
            return client.request(method, self.url + path, json=body, headers=headers)

    def complete(self, key: str | None = None) -> httpx2.Response:
        return self.call("POST", "/v1/completions", {"model": "stub", "prompt": "a secret prompt"}, key)

    def workers(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = self.call("GET", "/workers", key=self.control_key).json()["workers"]
        return listed


@contextmanager
def router(folder: Path, kind: str, pair: tuple[Worker, Worker], key: str | None, **settings: str) -> Iterator[Router]:
    """The router that the plan describes; ended afterwards."""
    port, metrics, bootstrap = free_ports(3)
    plan = make(
        {
            "DSV4_PROFILE": "demo-cpu",
            "DSV4_ROUTER": kind,
            "DSV4_ROUTER_PORT": str(port),
            "DSV4_ROUTER_METRICS_PORT": str(metrics),
            "DSV4_PREFILL_PORT": str(pair[0].port),
            "DSV4_DECODE_PORT": str(pair[1].port),
            "DSV4_BOOTSTRAP_PORT": str(bootstrap),
            "DSV4_ENGINE_PYTHON": str(VENVS / "engine/bin/python"),
            **({"DSV4_API_KEY": key} if key else {}),
            **settings,
        },
        no_gpu(),
        folder,
    )
    files.write(plan.files)
    program = next(program for program in plan.programs if program.name == "router")
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), **dict(program.env)}
    with (folder / "router.log").open("wb") as out:
        process = subprocess.Popen(program.argv, env=environ, stdout=out, stderr=out)
    running = Router(port, process, (folder / "router.control.key").read_text(), plan)
    try:
        wait(lambda: ready(running), 60, lambda: (folder / "router.log").read_text()[-2000:])
        yield running
    finally:
        process.kill()
        process.wait(20)


def ready(running: Router) -> bool:
    servers = sum(program.name in ("prefill", "decode", "single") for program in running.plan.programs)
    try:
        return bool(running.call("GET", "/readiness").json().get("healthy_workers") == servers)
    except (httpx2.HTTPError, ValueError):
        return False


def wait(true: Any, seconds: float, story: Any = lambda: "") -> float:
    """Seconds until something holds."""
    begun = time.monotonic()
    while not true():
        assert time.monotonic() - begun < seconds, f"not within {seconds} s; {story()}"
        time.sleep(0.05)
    return time.monotonic() - begun
