"""Make the folders of one appliance, and say which can't be written and why."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from dsv4_pd.errors import Problem, SettingsError, TemporaryError
from dsv4_pd.plan.disk import trust
from dsv4_pd.plan.disk.paths import Paths
from dsv4_pd.settings.schema import Settings

_SOCKET_PATH_MAX = 107  # sun_path of a unix socket


def resolve(settings: Settings, environ: Mapping[str, str]) -> Paths:
    """The folders the settings name, or the defaults for this user; makes nothing."""
    home = Path(environ.get("HOME") or "/nonexistent")
    state_home = Path(environ.get("XDG_STATE_HOME") or home / ".local" / "state")
    run = settings.run_dir or _first_writable(
        Path("/run/dsv4-pd"),
        Path(environ.get("XDG_RUNTIME_DIR") or "/nonexistent") / "dsv4-pd",
        Path(f"/tmp/dsv4-pd-{os.getuid()}"),
    )
    state = settings.state_dir or _first_writable(
        Path("/var/lib/dsv4-pd"), state_home / "dsv4-pd", Path(f"/tmp/dsv4-pd-state-{os.getuid()}")
    )
    cache = settings.cache_dir or state / "cache"
    # The engine binds to NUMA nodes through a script in TMPDIR, and docker mounts --tmpfs folders noexec.
    temp = next((path for path in (run / "tmp", cache / "tmp") if executable(path)), run / "tmp")
    return Paths(run=run, state=state, cache=cache, temp=temp)


def _first_writable(*candidates: Path) -> Path:
    """The first folder that exists and can be written, or could be made; else the last."""
    return next((path for path in candidates if _writable(path)), candidates[-1])


def _writable(path: Path) -> bool:
    if os.path.exists(path):  # noqa: PTH110 - unlike Path.exists it says no where it may not look
        return path.is_dir() and os.access(path, os.W_OK | os.X_OK)
    return os.access(_existing(path), os.W_OK | os.X_OK)


def executable(path: Path) -> bool:
    """Whether files below it may be executed: the mount's noexec flag."""
    return not os.statvfs(_existing(path)).f_flag & os.ST_NOEXEC


def _existing(path: Path) -> Path:
    """The path itself, or its closest parent that exists."""
    while not os.path.exists(path):  # noqa: PTH110
        path = path.parent
    return path


def free_below(path: Path) -> int | None:
    """Free bytes where a folder is, or would be made."""
    try:
        return shutil.disk_usage(_existing(path)).free
    except OSError:
        return None


def in_the_way(path: Path) -> Path | None:
    """What is no folder where one is, or would be made: a file, a pipe, a link that leads nowhere; None: nothing."""
    there = next((one for one in (path, *path.parents) if os.path.lexists(one)), None)
    return there if there is not None and not there.is_dir() else None


def make(paths: Paths) -> None:
    """Create every folder with mode 0700, and see that each is ours alone.

    Raises:
        SettingsError: naming each folder that can't be written or belongs to others, or a socket path that is too long.
    """
    named = {"DSV4_RUN_DIR": paths.run, "DSV4_STATE_DIR": paths.state, "DSV4_CACHE_DIR": paths.cache}
    problems = [problem for name, path in named.items() if (problem := _make(name, path))]
    length = len(os.fsencode(paths.supervisor_socket))
    if length > _SOCKET_PATH_MAX:
        problems.append(
            Problem(
                "DSV4_RUN_DIR",
                f"a socket path of {length} bytes",
                f"at most {_SOCKET_PATH_MAX}",
                "choose a shorter folder",
            )
        )
    inside = {"DSV4_RUN_DIR": (paths.logs, paths.plugin_records), "DSV4_RUN_DIR or DSV4_CACHE_DIR": (paths.temp,)}
    if not problems:
        problems = [wrong for name, folders in inside.items() for path in folders if (wrong := _make(name, path))]
    if problems:
        raise SettingsError(problems)


def _make(name: str, path: Path) -> Problem | None:
    try:
        trust.make(path)
        if wrong := trust.secure(path):
            return _not_ours(name, wrong)
        if not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as error:
        return Problem(
            name,
            f"{str(path)!r} ({error.strerror})",
            f"a folder that uid {os.getuid()} may write",
            f"mount a volume or tmpfs there owned by {os.getuid()}:{os.getgid()}, or set {name}",
        )
    return None


def _not_ours(name: str, found: str) -> Problem:
    me = os.geteuid()
    expected = f"a folder of uid {me} alone (mode 0700, no link on the way below a shared folder)"
    return Problem(name, found, expected, f"remove it, or `chown -R {me}` and `chmod 700` it, or set {name}")


def lock(paths: Paths) -> IO[str]:
    """Hold the run folder for this process's life.

    Raises:
        TemporaryError: when another appliance holds it.
    """
    handle = (paths.run / "lock").open("a+", encoding="ascii")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        handle.seek(0)
        raise TemporaryError(
            [
                Problem(
                    "DSV4_RUN_DIR",
                    f"{str(paths.run)!r}, held by process {handle.read()}",
                    "a folder of its own for each appliance",
                    "stop that appliance, or set DSV4_RUN_DIR",
                )
            ]
        ) from error
    handle.truncate(0)
    handle.write(str(os.getpid()))
    handle.flush()
    return handle
