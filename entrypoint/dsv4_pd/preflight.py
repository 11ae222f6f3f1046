"""What `serve` refuses before anything is loaded: an engine that is not there, a port that is taken."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from pathlib import Path

from dsv4_pd.boot import Plan
from dsv4_pd.errors import ApplianceError, Problem, TemporaryError
from dsv4_pd.programs import Port, router_python


def refuse(plan: Plan) -> None:
    """Raise for the first kind of trouble that is found.

    Raises:
        ApplianceError: the engine or the router is not installed.
        TemporaryError: a port is taken; names every one, with its setting.
    """
    _require_installed(plan)
    taken = [problem for program in plan.programs for problem in busy_ports(program.ports)]
    if taken:
        raise TemporaryError(taken)


def _require_installed(plan: Plan) -> None:
    settings = plan.settings
    wanted: dict[str, Path] = {
        "DSV4_ENGINE_PYTHON": settings.engine_python,
        "DSV4_ROUTER_PYTHON": router_python(settings),
    }
    for name, python in wanted.items():
        if not python.exists():
            what = "the engine" if name == "DSV4_ENGINE_PYTHON" else "the router"
            raise ApplianceError(
                f"{what} is not installed ({python} does not exist): run `make engine` in a checkout, "
                f"use the image, or set {name}"
            )


def busy_ports(ports: Iterable[Port]) -> list[Problem]:
    """A problem for each port that can't be bound now."""
    problems = []
    for port in ports:
        try:
            with socket.socket(socket.AF_INET6 if ":" in port.host else socket.AF_INET) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the servers do: TIME_WAIT is free
                probe.bind((port.host, port.number))
        except OSError as error:
            problems.append(
                Problem(
                    port.setting,
                    f"port {port.number} on {port.host} not bindable ({error.strerror})",
                    "a free port",
                    f"stop what listens there (ss -ltnp), or set {port.setting}",
                )
            )
    return problems
