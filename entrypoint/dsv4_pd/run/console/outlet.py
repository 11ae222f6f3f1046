"""Standard output that never makes the appliance wait and never ends it.

A pipe that nobody reads blocks its writer, a closed one raises, a full disk does too: all of that is the reader's
affair. Lines wait in a bounded queue for a thread of their own; what does not fit is counted and said later.
"""

from __future__ import annotations

import errno
import io
import os
import queue
import sys
import threading
import time
from typing import IO, cast

_WAITING = 4096  # pieces of text


class Outlet(io.TextIOBase):
    """A text stream over a file descriptor."""

    def __init__(self, descriptor: int, encoding: str = "utf-8") -> None:
        super().__init__()
        self._descriptor, self._code = descriptor, encoding
        self._waiting: queue.Queue[bytes] = queue.Queue(_WAITING)
        self._lost = 0
        self._broken = False
        threading.Thread(target=self._work, name="console", daemon=True).start()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """As the stream that it stands for."""
        return self._code

    @property
    def broken(self) -> bool:
        """Whether nobody will ever read what is written."""
        return self._broken

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def write(self, text: str) -> int:
        """Take it, or count it as lost; never waits, never raises."""
        if self._lost and not self._waiting.full():
            lost, self._lost = self._lost, 0
            self._put(f"(standard output was not read: {lost} pieces of output are missing here)\n")
        self._put(text)
        return len(text)

    def _put(self, text: str) -> None:
        try:
            self._waiting.put_nowait(text.encode(self._code, "backslashreplace"))
        except queue.Full:
            self._lost += 1

    def drain(self, seconds: float) -> None:
        """Wait until all is written, for so long at most."""
        deadline = time.monotonic() + seconds
        while self._waiting.unfinished_tasks and not self._broken and time.monotonic() < deadline:
            time.sleep(0.01)

    def _work(self) -> None:
        while True:
            self._send(self._waiting.get())
            self._waiting.task_done()

    def _send(self, data: bytes) -> None:
        while data and not self._broken:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:  # somebody else made the stream non-blocking
                time.sleep(0.05)
            except OSError as error:
                self._broken = not _may_heal(error)
                return


def _may_heal(error: OSError) -> bool:
    """A full disk may be emptied; a pipe that was closed stays closed."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def standard() -> IO[str]:
    """Standard output as an outlet; a stream without a descriptor (a test's) is taken as it is."""
    stream = sys.stdout
    if stream is None:
        return cast("IO[str]", Outlet(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)))
    try:
        return cast("IO[str]", Outlet(stream.fileno(), stream.encoding or "utf-8"))
    except (OSError, ValueError):
        return stream
