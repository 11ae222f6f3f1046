"""An appliance of our own, started as a child for as long as a measurement takes."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from dsv4_pd.client import http
from dsv4_pd.errors import ApplianceError
from dsv4_pd.host.loopback import LOOPBACK
from dsv4_pd.plan.placement.members import PORT_STEP
from dsv4_pd.settings.deprecated import old_names
from dsv4_pd.settings.layout import MOST
from dsv4_pd.settings.schema import Settings, env_name

_START_S = 3600.0
_STOP_S = 90.0
_PR_SET_PDEATHSIG = 1


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
        # On loopback, whatever the operator has for the appliance that runs.
        own = {
            "run_dir": str(folder / "run"),
            "state_dir": str(folder / "state"),
            "host": LOOPBACK,
            "ops_host": LOOPBACK,
        }
        values = {**own, **_ports(), **settings}
        environ = {**os.environ, **(variables or {}), **_named(values)}
        with _ended_by_term(), (folder / "serve.log").open("wb") as log:
            command = [sys.executable, "-m", "dsv4_pd", "serve"]
            # Our own death, however it comes, asks it to stop: nobody else knows that it runs.
            child = subprocess.Popen(command, env=environ, stdout=log, stderr=log, preexec_fn=tied())  # noqa: PLW1509
            try:
                ready_s = _wait(child, f"http://{LOOPBACK}:{values['ops_port']}", folder / "serve.log")
                base = f"http://{LOOPBACK}:"
                yield Running(base + values["port"], base + values["ops_port"], ready_s)
            finally:
                _stop(child)


def _named(values: Mapping[str, str]) -> dict[str, str]:
    """Fields as variables; the old names of each are blank, because the caller's environment may hold them."""
    names = {env_name(field): value for field, value in values.items()}
    return {**{old: "" for name in names for old in old_names(name)}, **names}


def tied() -> Callable[[], None]:
    """To run in a child before it becomes its program: it is sent TERM when the thread that started it ends."""
    libc = ctypes.CDLL(None)  # loaded before the fork: a child of a process with threads should do little

    def tie() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)

    return tie


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
    """A free port for each setting that names one, and so that those of further members are free as well."""
    found: dict[str, str] = {}
    with ExitStack() as held:
        for field in (name for name in Settings.model_fields if name.endswith("port")):
            port = 0
            while not port:
                port = _hold_row(held)
            found[field] = str(port)
    return found


def _hold_row(held: ExitStack) -> int:
    """Bind a port that is free with all that are derived from it; 0 when one of them is taken."""
    with ExitStack() as row:
        first = row.enter_context(socket.socket())
        first.bind((LOOPBACK, 0))
        port = int(first.getsockname()[1])
        for number in range(port + PORT_STEP, port + PORT_STEP * MOST, PORT_STEP):
            try:
                row.enter_context(socket.socket()).bind((LOOPBACK, number))
            except (OSError, OverflowError):
                return 0
        held.push(row.pop_all())
    return port


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
