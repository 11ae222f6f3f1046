"""A stand-in for an engine server or the router, for misbehaviour that the real ones can't show. Standard library only.

    python stub.py prefill|decode|router FOLDER PORT [BOOTSTRAP_PORT]

Its behaviour is FOLDER/<role>.json, read again at every request and every 50 ms, so that a test can change it at any
moment: ready_after, ready, health, generate, handover, log, exit_code, exit_after, signal, child, bootstrap, work.
Requests are answered as the engine does: prefill and decode get the same body from the router, decode's answer is
returned. They are counted as the engine does (tests/pair/test_counters.py compares the two): every end in
`num_requests_total`, an aborted one too; first tokens only by decode, and only of what was not aborted before.

What it hides: KV does not cross, so a request of one server never fails for the other's sake, and decode's tokens come
at once.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import mmap
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROLE, FOLDER, PORT = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
BOOTSTRAP = int(sys.argv[4]) if len(sys.argv) > 4 else 0
BORN = time.monotonic()
counts: dict[str, int] = {"tokens": 0, "requests": 0, "aborted": 0, "first": 0, "failed": 0, "handing": 0}
COUNTERS = {
    "requests": "num_requests_total",
    "aborted": "num_aborted_requests_total",
    "first": "time_to_first_token_seconds_count",
    "failed": "num_transfer_failed_reqs_total",
    "handing": "num_prefill_inflight_queue_reqs",
}
kept: list[mmap.mmap] = []  # mappings that last as long as the process
aborts = [0]  # how often everything was aborted


def behaviour() -> dict[str, Any]:
    for _ in range(20):
        with contextlib.suppress(OSError, ValueError):
            found: dict[str, Any] = json.loads((FOLDER / f"{ROLE}.json").read_text())
            return found
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

    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        return body


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
                "sglang:max_total_num_tokens 4096.0",
                *(f"sglang:{name} {counts[key]}.0" for key, name in COUNTERS.items()),
            ]
            self.answer(200, "\n".join(lines), "text/plain")
        elif self.path == "/v1/models":
            one = {"id": "stub", "object": "model", "owned_by": "sglang", "max_model_len": 4096}
            self.answer(200, {"object": "list", "data": [one]})
        else:  # what a real router asks when it takes a server in; smg tells by it which engine it is
            about = {"version": "0.5.23", "model_path": "stub", "served_model_name": "stub", "tp_size": 1}
            self.answer(200, {**about, "internal_states": []})

    def do_POST(self) -> None:
        if self.path == "/abort_request":
            self.body()
            aborts[0] += 1
            counts["aborted"] += 1
            return self.answer(200)
        now, body = behaviour(), self.body()
        how = now.get("generate", 200)
        if how == "close":
            os._exit(now.get("exit_code", 3))
        crossed = ROLE == "decode" and how == 200  # its first token is there, and what is waited for is the rest
        counts["first"] += crossed
        counts["tokens"] += 12 if ROLE == "prefill" or crossed else 0
        if self.ends_while_waiting(3600 if how == "hang" else now.get("seconds", 0)):
            return None
        if now.get("handover"):  # computed, and the peer does not accept it
            counts["handing"] += 1
            ended = self.ends_while_waiting(now["handover"])
            counts["handing"] -= 1
            if ended:
                return None
            how = 500
        return self.complete(how, body)

    def ends_while_waiting(self, seconds: float) -> bool:
        """Whether the request is over before the time is: its client left, or all were aborted."""
        until, before = time.monotonic() + seconds, aborts[0]
        while time.monotonic() < until:
            gone = select.select([self.connection], [], [], 0.05)[0]
            if gone or aborts[0] > before:
                counts["requests"] += 1
                counts["failed"] += ROLE == "prefill" or behaviour().get("generate", 200) != 200
                counts["aborted"] += bool(gone)
                self.close_connection = True
                if not gone:
                    self.answer(500, {"error": {"message": f"{ROLE}: aborted"}})
                return True
        return False

    def complete(self, how: int, body: dict[str, Any]) -> None:
        counts["requests"] += how == 200 or how >= 500  # a refusal is counted nowhere
        if how != 200:
            counts["failed"] += how >= 500
            return self.answer(how, {"error": {"message": f"{ROLE} says {how}"}})
        text = f"{ROLE} heard {len(str(body.get('prompt', '')))} characters"
        return self.answer(200, {"choices": [{"index": 0, "text": text, "finish_reason": "length"}], "from": ROLE})


class Bootstrap(Handler):
    def do_GET(self) -> None:
        if behaviour().get("bootstrap") == "hang":
            hang()
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
        return time.monotonic() - self.fresh[0] < float(behaviour().get("lag", 0))

    def workers(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in behaviour()["workers"]]

    def listed(self) -> list[dict[str, Any]]:
        """As sglang-router writes it; health is that of `healthy_workers`. The key to it is not asked for."""
        kinds, fetched = behaviour().get("names", []), [fetch(f"{url}/ready")[0] == 200 for url in self.workers()]
        found = [
            {"id": url.rsplit(":", 1)[1], "url": url, "worker_type": kind, "is_healthy": healthy}
            | ({"bootstrap_port": behaviour()["bootstrap"]} if kind == "prefill" and "bootstrap" in behaviour() else {})
            for url, kind, healthy in zip(self.workers(), kinds, fetched, strict=True)
        ]
        return [*found, *behaviour().get("strangers", [])]

    def do_GET(self) -> None:
        if self.path == "/workers":
            return self.answer(200, {"workers": self.listed()})
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
        results = self.ask_all(raw)
        if results is None:
            self.close_connection = True
            return None
        for url, name in zip(self.workers(), behaviour()["names"], strict=True):
            status, text = results.get(url, (504, ""))
            if status != 200:
                return self.answer(502, {"error": {"code": f"{name}_server_error", "message": f"{name}: {status}"}})
        return self.answer(200, text)

    def ask_all(self, raw: bytes) -> dict[str, tuple[int, str]] | None:
        """What each worker answers; None, and no more requests to them, when the client leaves."""
        results: dict[str, tuple[int, str]] = {}
        asked = [http.client.HTTPConnection(url.removeprefix("http://"), timeout=25) for url in self.workers()]

        def ask(url: str, connection: http.client.HTTPConnection) -> None:
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
                connection.request("POST", "/v1/completions", raw, {"Content-Type": "application/json"})
                got = connection.getresponse()
                results[url] = (got.status, got.read().decode())
                return
            results[url] = (0, "")

        tasks = [
            threading.Thread(target=ask, args=pair, daemon=True) for pair in zip(self.workers(), asked, strict=True)
        ]
        for task in tasks:
            task.start()
        until = time.monotonic() + behaviour().get("request_timeout", 30)
        while any(task.is_alive() for task in tasks) and time.monotonic() < until:
            if select.select([self.connection], [], [], 0.05)[0]:
                for connection in asked:
                    with contextlib.suppress(OSError, AttributeError):
                        connection.sock.shutdown(socket.SHUT_RDWR)
                return None
        return results


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


def bear(kind: str) -> subprocess.Popen[bytes]:
    """A child: a scheduler or compiler by its name, or one that outlives its parent."""
    if kind == "compiler":
        shutil.copy(shutil.which("sleep") or "/bin/sleep", FOLDER / "cicc")  # the kernel names a process by its file
        return subprocess.Popen([str(FOLDER / "cicc"), "600"])
    code = "import time; time.sleep(600)"
    if kind == "scheduler":  # named as SGLang's setproctitle does: the command line, and the kernel's name
        code = "import ctypes, time; ctypes.CDLL(None).prctl(15, b'sglang::scheduler'); time.sleep(600)"
    name = "sglang::scheduler" if kind == "scheduler" else sys.executable
    return subprocess.Popen([name, "-c", code], executable=sys.executable, start_new_session=kind == "setsid")


def main() -> None:
    now = behaviour()
    if now.get("ignore_term"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    with (FOLDER / f"{ROLE}.pids").open("a") as file:
        file.write(f"{os.getpid()}\n")
    if now.get("child"):
        (FOLDER / f"{ROLE}.child").write_text(str(bear(now["child"]).pid))
    if now.get("shm"):  # a file below /dev/shm, mapped as the engine's queues are
        with Path(now["shm"]).open("w+b") as file:
            file.truncate(4096)
            kept.append(mmap.mmap(file.fileno(), 4096))
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
