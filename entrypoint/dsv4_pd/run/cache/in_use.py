"""Who serves from a cache folder: each appliance holds a lock on it, and the first one knows that it is alone."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from dsv4_pd.run.cache.systems import OURS

_WAIT_S = 10.0  # for another appliance to look its cache over; a file system without locks is not waited for
_STEP_S = 0.1


class InUse:
    """Held for an appliance's life; the kernel lets go of it however that ends.

    alone: no other appliance holds the folder. Where that can't be known (no locks there), False.
    """

    def __init__(self, cache: Path) -> None:
        folder = cache / OURS
        folder.mkdir(parents=True, exist_ok=True)
        self._handle = os.open(folder / "in-use", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        self.alone = self._try(fcntl.LOCK_EX)

    def share(self) -> None:
        """Let others in; they are not alone then."""
        self.alone = False
        deadline = time.monotonic() + _WAIT_S
        while not self._try(fcntl.LOCK_SH) and time.monotonic() < deadline:
            time.sleep(_STEP_S)

    def close(self) -> None:
        """Serve from it no more."""
        os.close(self._handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _try(self, kind: int) -> bool:
        try:
            fcntl.flock(self._handle, kind | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
