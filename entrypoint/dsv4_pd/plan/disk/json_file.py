"""A JSON file of somebody else's making."""

from __future__ import annotations

import errno
import json
import stat
from pathlib import Path
from typing import Any


def read(path: Path) -> Any:
    """Its value.

    Raises:
        OSError: it can't be read. ValueError: it is no JSON, or nested deeper than anybody reads.
    """
    if not stat.S_ISREG(path.stat().st_mode):  # a pipe would never end
        raise OSError(errno.EINVAL, "no file", str(path))
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
