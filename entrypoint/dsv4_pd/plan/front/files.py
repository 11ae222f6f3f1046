"""The files of the front: keys, certificate, request log. Whether they can be used is asked before a start."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from dsv4_pd.plan.front import client_keys
from dsv4_pd.plan.front.certificate import unusable
from dsv4_pd.settings.schema import Settings, env_name


def refusals(settings: Settings) -> tuple[tuple[str, str], ...]:
    """(setting, why its file can't be used), for each one that can't."""
    found: list[tuple[str, str]] = []
    if settings.api_keys_file is not None:
        try:
            client_keys.load(settings.api_keys_file)
        except client_keys.KeysError as error:
            found.append((env_name("api_keys_file"), str(error)))
    if settings.tls_cert and settings.tls_key and (why := unusable(settings.tls_cert, settings.tls_key)):
        found.append((env_name("tls_cert"), why))
    if settings.request_log not in ("off", "stdout") and (why := _no_log(Path(settings.request_log))):
        found.append((env_name("request_log"), why))
    return tuple(found)


def _no_log(path: Path) -> str | None:
    """Why nothing can be appended to a file, or None. Makes nothing: a file that is not there can be made where its
    folder may be written.
    """
    try:
        if not path.exists():
            where = path.parent
            good = where.is_dir() and os.access(where, os.W_OK | os.X_OK)
            return None if good else f"{path}: {where} is no folder that this user may write"
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe that nobody reads would hold every request up
            return f"{path} is no regular file"
        os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK))
    except OSError as error:
        return f"{path} can't be appended to ({error.strerror})"
    return None
