"""A worker that is not ours in the router's list: whoever has the router's own key could put one there."""

from __future__ import annotations

import json
import random
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx2
from support.appliance import Appliance

from chaos import bounds, who
from chaos.broken import Broken

# What both routers ask a server of SGLang when they take it in.
ABOUT = {"version": "0.5.23", "model_path": "x", "served_model_name": "dsv4-demo", "tp_size": 1, "internal_states": []}
MODELS = {"object": "list", "data": [{"id": "dsv4-demo", "object": "model", "owned_by": "sglang"}]}
AFTER_S = 3.0  # how long it goes on listening


class Stranger:
    """Says that it is well, and writes down when it was sent a prompt. What it hides: it answers no prompt."""

    def __enter__(self) -> Stranger:
        heard = self.heard = list[float]()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if self.command == "POST":
                    heard.append(time.monotonic())
                raw = json.dumps(MODELS if self.path == "/v1/models" else ABOUT).encode()
                self.send_response(503 if self.command == "POST" else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            do_POST = do_GET  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


def add_stranger(appliance: Appliance, choose: random.Random) -> str:
    """One more server; the guard has the router forget it within the bound, and no prompt reaches it after that.

    Raises:
        Broken: it is still there, or it heard a prompt after the bound.
    """
    bound = bounds.seconds(bounds.STRANGER)
    assert bound is not None
    kind = "decode" if who.has_link(appliance) else "regular"
    key = (appliance.root / "run/router.control.key").read_text()
    with Stranger() as stranger, httpx2.Client(
        base_url=appliance.router, headers={"Authorization": f"Bearer {key}"}, trust_env=False, timeout=10
    ) as router:  # fmt: skip
        try:
            added = router.post("/workers", json={"url": stranger.url, "worker_type": kind}).status_code
            begun = time.monotonic()
            seen = listed_until(router, stranger.url, begun + 2 * bound)
        except httpx2.HTTPError as error:  # the router is down from what was done before
            return f"a stranger for the router: {type(error).__name__}"
        if added != 202:
            raise Broken(f"the guard's key did not add a worker: {added}")
        if seen is None or seen - begun > bound:
            raise Broken(f"a stranger was still in the router's list after {bound:.0f} s")
        time.sleep(AFTER_S)
        late = [at for at in stranger.heard if at > begun + bound]
        if late:
            raise Broken(f"a stranger heard {len(late)} prompts after {bound:.0f} s")
        return f"a stranger in the router's list for {seen - begun:.1f} s, sent {len(stranger.heard)} prompts"


def listed_until(router: httpx2.Client, url: str, deadline: float) -> float | None:
    """When it was first not among the workers any more, or on its way out; None: it still is. The router takes it in
    beside its other work, so that it is not there at once.
    """
    there, begun = False, time.monotonic()
    while (now := time.monotonic()) < deadline:
        listed: list[dict[str, Any]] = router.get("/workers").json().get("workers", [])
        ours = [one for one in listed if one["url"] == url and one.get("status") != "draining"]
        if not ours and (there or now - begun > 3.0):
            return now
        there = there or bool(ours)
        time.sleep(0.05)
    return None
