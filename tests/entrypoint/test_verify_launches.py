"""Restart and verify again: a later start must be seen, not the old one that still answers."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from dsv4_pd.client.ops import Ops
from dsv4_pd.errors import ApplianceError
from dsv4_pd.verify import launches


class Restartable:
    """An ops port whose servers are as old as `born` says; a mark on disk restarts them a moment later."""

    def __init__(self, mark: Path) -> None:
        self.mark, self.old, self.born, self.down_until = mark, time.time() - 100.0, 0.0, 0.0

    def status(self) -> tuple[int, dict[str, Any]]:
        now = time.time()
        if self.mark.exists():
            self.mark.unlink()
            self.born, self.down_until = now + 1.5, now + 3.0
        restarted = 0 < self.born <= now
        roles = {"decode": {"elapsed_s": now - (self.born if restarted else self.old)}}
        if restarted and now < self.down_until:
            return 503, {"state": "LOADING", "heartbeat": now, "roles": roles}
        return 200, {"state": "READY", "heartbeat": now, "roles": roles}


@pytest.fixture
def appliance(tmp_path: Path) -> Iterator[tuple[Restartable, str]]:
    fake = Restartable(tmp_path / "mark")

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            status, body = fake.status()
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield fake, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_waits_for_the_later_start(appliance: tuple[Restartable, str]) -> None:
    fake, url = appliance
    launches.restart(Ops(url), f"{sys.executable} -c \"open('{fake.mark}', 'w')\"")
    assert fake.born and time.time() >= fake.down_until, "the old appliance was taken for the new one"


def test_a_command_that_fails_is_told(appliance: tuple[Restartable, str]) -> None:
    with pytest.raises(ApplianceError, match="ended with 3"):
        launches.restart(Ops(appliance[1]), f"{sys.executable} -c 'raise SystemExit(3)'")
