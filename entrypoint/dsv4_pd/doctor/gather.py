"""Reads what is around the facts: environment, ports, disks, programs, the model's folder."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path

from dsv4_pd.doctor.base import Around, Disk
from dsv4_pd.doctor.checks.toolchain import PROGRAMS
from dsv4_pd.host import numa
from dsv4_pd.plan.model_files import Model, hub_cache, look
from dsv4_pd.plan.paths import Paths
from dsv4_pd.plan.programs import Port, Program, router_python
from dsv4_pd.settings.schema import Settings


def gather(
    settings: Settings,
    programs: Iterable[Program],
    paths: Paths,
    permission: numa.Permission,
    environ: Mapping[str, str],
    *,
    running: bool = False,
) -> Around:
    """Everything that only the live machine can say. `running`: an appliance of ours is known to run here."""
    model = look(settings.model, settings.model_revision, environ)
    ports = tuple(port for program in programs for port in program.ports)
    return Around(
        environ=environ,
        busy_ports=tuple((port, why) for port in ports if (why := bind_refusal(port))),
        disks=tuple(_disks(paths, model, hub_cache(environ))),
        model=model,
        engine_python=os.access(settings.engine_python, os.X_OK),
        router_python=os.access(router_python(settings), os.X_OK),
        tools={name: shutil.which(name) is not None for name in PROGRAMS},
        numa=permission,
        running=running,
    )


def bind_refusal(port: Port) -> str | None:
    """Why a port can't be bound, or None."""
    family = socket.AF_INET6 if ":" in port.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        # As the servers do: a port in TIME_WAIT is free for them.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((port.host, port.number))
            sock.listen(1)
        except OSError as error:
            return f"can't be bound ({(error.strerror or str(error)).lower()})"
    return None


def _disks(paths: Paths, model: Model, hub: Path) -> Iterable[Disk]:
    yield Disk("run", "DSV4_RUN_DIR", paths.run, free_below(paths.run))
    yield Disk("state", "DSV4_STATE_DIR", paths.state, free_below(paths.state))
    yield Disk("cache", "DSV4_CACHE_DIR", paths.cache, free_below(paths.cache))
    if model.path is None:
        yield Disk("model", "HF_HOME", hub, free_below(hub))


def appliance_runs(run: Path) -> bool:
    """Whether an appliance holds the lock of a run folder."""
    try:
        with (run / "lock").open("rb") as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def free_below(path: Path) -> int | None:
    """Free bytes where a folder is, or would be made."""
    while not path.exists() and path != path.parent:
        path = path.parent
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return None
