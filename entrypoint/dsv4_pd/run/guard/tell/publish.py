"""The guard's published files: health.json for everybody, exit.json for `serve`."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dsv4_pd.run.guard.decide.states import Verdict


def write_json(path: Path, data: dict[str, Any]) -> str | None:
    """Replace the file in one step; on a full tmpfs overwrite it in place. Returns what went wrong."""
    text = json.dumps(data).encode()
    fresh = path.with_suffix(".new")
    try:
        fresh.write_bytes(text)
        fresh.replace(path)
        return None
    except OSError:
        return _overwrite(path, text)


def _overwrite(path: Path, text: bytes) -> str | None:
    """The old file's pages are ours already, so this works where no new page can be had."""
    with contextlib.suppress(OSError):
        path.with_suffix(".new").unlink()
    try:
        with path.open("r+b") as file:
            file.write(text)
            file.truncate()
    except OSError as error:
        return f"{path}: {error.strerror}"
    return None


def write_verdict(path: Path, verdict: Verdict, lines: Sequence[str], owner: int) -> str | None:
    """The guard's last word; `owner` is supervisord's pid, so that a later run never takes it for its own."""
    return write_json(
        path,
        {
            "code": verdict.code,
            "cause": verdict.cause,
            "role": verdict.role,
            "lines": list(lines),
            "supervisord": owner,
        },
    )


def read_verdict(path: Path, owner: int) -> Verdict | None:
    """A verdict that an earlier guard under the same supervisord gave."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return Verdict(data["code"], data["cause"], data.get("role")) if data.get("supervisord") == owner else None
    except (OSError, ValueError, KeyError):
        return None


def read_json(path: Path) -> dict[str, Any]:
    """A published file, or nothing."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}
