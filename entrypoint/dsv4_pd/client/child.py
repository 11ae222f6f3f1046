"""An appliance of our own, started as a child for as long as a measurement takes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from dsv4_pd.client import http
from dsv4_pd.errors import ApplianceError
from dsv4_pd.settings.schema import Settings, env_name

_START_S = 3600.0
_STOP_S = 90.0
_HERE = "127.0.0.1"  # whatever the operator has for the appliance that runs


@dataclass(frozen=True, slots=True)
class Running:
    """Where it answers, and how long it took to serve."""

    api_url: str
    ops_url: str
    ready_s: float


@contextmanager
def second(status: Mapping[str, Any], **settings: str) -> Iterator[Running]:
    """One more appliance with the model and profile of a running one, on free ports; stopped at the end."""
    about = status.get("about") or {}
    same = {"profile": str(status.get("profile", "")), "model": str((about.get("weights") or {}).get("name", ""))}
    with started({**same, **settings}) as running:
        yield running


@contextmanager
def started(settings: Mapping[str, str], variables: Mapping[str, str] | None = None) -> Iterator[Running]:
    """`dsv4-pd serve` with these settings and variables over the caller's own environment.

    Raises:
        ApplianceError: when it ends before it serves, with its last lines.
    """
    with tempfile.TemporaryDirectory(prefix="dsv4-pd-") as name:
        folder = Path(name)
        own = {"run_dir": str(folder / "run"), "state_dir": str(folder / "state"), "host": _HERE, "ops_host": _HERE}
        values = {**own, **_ports(), **settings}
        environ = {**os.environ, **(variables or {}), **{env_name(field): value for field, value in values.items()}}
        with _ended_by_term(), (folder / "serve.log").open("wb") as log:
            child = subprocess.Popen([sys.executable, "-m", "dsv4_pd", "serve"], env=environ, stdout=log, stderr=log)
            try:
                ready_s = _wait(child, f"http://{_HERE}:{values['ops_port']}", folder / "serve.log")
                base = f"http://{_HERE}:"
                yield Running(base + values["port"], base + values["ops_port"], ready_s)
            finally:
                _stop(child)


@contextmanager
def _ended_by_term() -> Iterator[None]:
    """A TERM to us must end the child as well: it becomes an exception that unwinds the blocks above."""

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _ports() -> dict[str, str]:
    fields = [name for name in Settings.model_fields if name.endswith("port")]
    sockets = [socket.socket() for _ in fields]
    for item in sockets:
        item.bind(("127.0.0.1", 0))
    ports = {field: str(item.getsockname()[1]) for field, item in zip(fields, sockets, strict=True)}
    for item in sockets:
        item.close()
    return ports


def _wait(child: subprocess.Popen[bytes], ops_url: str, log: Path) -> float:
    begun = time.monotonic()
    while time.monotonic() - begun < _START_S:
        if child.poll() is not None:
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
            raise ApplianceError(f"dsv4-pd serve ended with {child.returncode} before it served:\n" + "\n".join(lines))
        if _answers(f"{ops_url}/readyz"):
            return round(time.monotonic() - begun, 1)
        time.sleep(0.5)
    raise ApplianceError(f"dsv4-pd serve did not serve within {_START_S:.0f} s")


def _answers(url: str) -> bool:
    try:
        with http.client(url, 5.0) as client:
            return client.get(url).is_success
    except http.FAILURES:
        return False


def _stop(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGTERM)  # a second one ends it at once
            child.wait(_STOP_S)
