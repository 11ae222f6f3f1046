"""A stand-in for an engine server or the router, for misbehaviour that the real ones can't show. Standard library only.

    python stub.py prefill|decode|router FOLDER PORT [BOOTSTRAP_PORT]

Its behaviour is FOLDER/<role>.json, read again at every request and every 50 ms, so that a test can change it at any
moment: ready_after, ready, health, generate, log, exit_code, exit_after, signal, child, bootstrap, work. Requests are
answered as the engine does: prefill and decode get the same body from the router, decode's answer is returned.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROLE, FOLDER, PORT = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
BOOTSTRAP = int(sys.argv[4]) if len(sys.argv) > 4 else 0
BORN = time.monotonic()
counts: dict = {"tokens": 0, "requests": 0}


def behaviour() -> dict:
    for _ in range(20):
        with contextlib.suppress(OSError, ValueError):
            return json.loads((FOLDER / f"{ROLE}.json").read_text())
        time.sleep(0.005)
    return {}


def hang() -> None:
    time.sleep(3600)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: object) -> None:
        pass

    def answer(self, status: int, body: object = "", kind: str = "application/json") -> None:
        text = body if isinstance(body, str) else json.dumps(body)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def body(self) -> dict:
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")


class Server(Handler):
    """prefill or decode."""

    def do_GET(self) -> None:
        now = behaviour()
        if self.path == "/ready":
            if now.get("ready") == "hang":
                hang()
            self.answer(now.get("ready", 200))
        elif self.path == "/health":
            with (FOLDER / f"{ROLE}.health-probes").open("a") as file:
                file.write("+")
            time.sleep(now.get("health_seconds", 0))
            with (FOLDER / f"{ROLE}.health-probes").open("a") as file:
                file.write("-")
            self.answer(now.get("health", 200))
        elif self.path == "/metrics":
            if now.get("work"):
                counts["tokens"] += 100
            lines = [
                f'sglang:realtime_tokens_total{{mode="all"}} {counts["tokens"]}.0',
                f"sglang:num_requests_total {counts['requests']}.0",
                "sglang:max_total_num_tokens 4096.0",
            ]
            self.answer(200, "\n".join(lines), "text/plain")
        else:
            self.answer(200, {})

    def do_POST(self) -> None:
        now, body = behaviour(), self.body()
        how = now.get("generate", 200)
        if how == "hang":
            hang()
        if how == "close":
            os._exit(now.get("exit_code", 3))
        if how != 200:
            return self.answer(how, {"error": {"message": f"{ROLE} says {how}"}})
        time.sleep(now.get("seconds", 0))
        counts["tokens"] += 12
        counts["requests"] += 1
        text = f"{ROLE} heard {len(str(body.get('prompt', '')))} characters"
        return self.answer(200, {"choices": [{"index": 0, "text": text, "finish_reason": "length"}], "from": ROLE})


class Bootstrap(Handler):
    def do_GET(self) -> None:
        self.answer(200)


class Router(Handler):
    """Both workers get the body, decode's answer is returned; workers are taken in again by themselves."""

    fresh: list[float] = []  # since when every worker is ready

    def lags(self) -> bool:
        """Whether it has yet to take workers in that are ready, as the real one does between two of its checks."""
        if not all(fetch(f"{url}/ready")[0] == 200 for url in self.workers()):
            self.fresh[:] = []
            return True
        self.fresh[:] = self.fresh or [time.monotonic()]
        return time.monotonic() - self.fresh[0] < behaviour().get("lag", 0)

    def workers(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in behaviour()["workers"]]

    def do_GET(self) -> None:
        if self.path != "/readiness":
            return self.answer(200)
        blind = behaviour().get("blind") and os.getpid() == behaviour()["blind"]
        if not behaviour().get("lag"):
            self.fresh[:] = []
        healthy = 0 if blind or self.lags() else sum(fetch(f"{url}/ready")[0] == 200 for url in self.workers())
        status = 200 if healthy == len(self.workers()) else 503
        return self.answer(status, {"status": "ready" if status == 200 else "not ready", "healthy_workers": healthy})

    def do_POST(self) -> None:
        if self.path == "/workers":
            self.body()
            return self.answer(202, {"status": "accepted"})
        raw = json.dumps(self.body()).encode()
        if behaviour().get("lag") and self.lags():
            return self.answer(503, {"error": {"code": "server_selection_failed"}})
        results: dict[str, tuple[int, str]] = {}
        tasks = [
            threading.Thread(target=lambda u=url: results.__setitem__(u, fetch(f"{u}/v1/completions", raw)))
            for url in self.workers()
        ]
        for task in tasks:
            task.start()
        for task in tasks:
            task.join(behaviour().get("request_timeout", 30))
        for url, name in zip(self.workers(), behaviour()["names"], strict=True):
            status, text = results.get(url, (504, ""))
            if status != 200:
                return self.answer(502, {"error": {"code": f"{name}_server_error", "message": f"{name}: {status}"}})
        return self.answer(200, text)


def fetch(url: str, data: bytes | None = None) -> tuple[int, str]:
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=25) as got:
            return got.status, got.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


class Quick(ThreadingHTTPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128


def follow_orders(stop: threading.Event) -> None:
    """Print log lines when they are due, and end as told."""
    printed = 0
    while True:
        now, age = behaviour(), time.monotonic() - BORN
        lines = now.get("log", []) if now.get("only", os.getpid()) == os.getpid() else []
        while printed < len(lines) and lines[printed][0] <= age:
            print(lines[printed][1], flush=True)
            printed += 1
        if "exit_after" in now and age >= now["exit_after"]:
            number = now.get("signal")
            os.kill(os.getpid(), number) if number else os._exit(now.get("exit_code", 3))
        if stop.wait(0.05):
            return


def main() -> None:
    now = behaviour()
    if now.get("ignore_term"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    with (FOLDER / f"{ROLE}.pids").open("a") as file:
        file.write(f"{os.getpid()}\n")
    if now.get("child"):
        name = "sglang::scheduler" if now["child"] == "scheduler" else sys.executable
        child = subprocess.Popen(
            [name, "-c", "import time; time.sleep(600)"],
            executable=sys.executable,
            start_new_session=now["child"] == "setsid",
        )
        (FOLDER / f"{ROLE}.child").write_text(str(child.pid))
    if now.get("shm"):  # a file below /dev/shm, mapped as the engine's queues are
        with Path(now["shm"]).open("w+b") as file:
            file.truncate(4096)
            counts["shm"] = mmap.mmap(file.fileno(), 4096)
    stop = threading.Event()
    threading.Thread(target=follow_orders, args=(stop,), daemon=True).start()
    while time.monotonic() - BORN < behaviour().get("ready_after", 0):
        time.sleep(0.05)
    if BOOTSTRAP and now.get("bootstrap", True):
        threading.Thread(target=Quick(("127.0.0.1", BOOTSTRAP), Bootstrap).serve_forever, daemon=True).start()
    try:
        Quick(("127.0.0.1", PORT), Router if ROLE == "router" else Server).serve_forever()
    except OSError as error:
        print(f"[2026-11-29 15:00:00] ERROR: [Errno 98] error while attempting to bind: {error}", flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
