"""One log record is one line, whatever a client sent.

The guard reads the servers' logs line by line and believes what a line begins with. A record may hold words of a client
(a name that does not exist, a schema that does not parse), so a line break inside of it would let the client write
lines of the server's own. The convention, for everything that reads these logs:

* Each record of Python's `logging` in each process of the engine is one line: `[time] message`. Whatever in it is not
  printable stands as its escape (`\\n`, `\\r`, `\\x1b`, `\\x85`, `\\u2028`), a traceback's line ends too.
* So a line that begins with `[time]` is the beginning of a record, and no client put anything at the beginning of a
  line. To read a traceback, split the line at the two characters `\\n`.
* What is no record (a traceback that ends the interpreter, a progress bar, a library's own message) is bare, as before.
"""

from __future__ import annotations

import logging
import threading
import warnings

KEPT = "\t"  # not printable by Python's book, and ends no line
MARK = "_dsv4_one_line"


def one_line(text: str) -> str:
    """The text without anything that ends a line, moves a cursor or cannot be encoded.

    >>> one_line("x" + chr(10) + "SIGQUIT received." + chr(0x85) + chr(0x2028) + chr(27) + "[2J")
    'x\\\\nSIGQUIT received.\\\\x85\\\\u2028\\\\x1b[2J'
    >>> one_line("naïve 你好\\t😀")
    'naïve 你好\\t😀'
    """
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() or sign in KEPT else escape(sign) for sign in text)


def escape(sign: str) -> str:
    """One character as Python would write it in a literal.

    >>> escape(chr(10)), escape(chr(0x202E)), escape(chr(0xD800))
    ('\\\\n', '\\\\u202e', '\\\\ud800')
    """
    return sign.encode("unicode_escape").decode("ascii")


def install() -> None:
    """For every handler that this process has or will have: the engine sets its handlers up after its plugins."""
    original = logging.Handler.format
    if getattr(original, MARK, False):
        return

    def format_one_line(handler: logging.Handler, record: logging.LogRecord) -> str:
        return one_line(original(handler, record))

    setattr(format_one_line, MARK, True)
    logging.Handler.format = format_one_line  # type: ignore[method-assign,assignment]
    logging.captureWarnings(True)  # a warning quotes what it warns of
    warnings.formatwarning = _short
    threading.excepthook = _log_thread  # asyncio and the executors go through logging already


def _short(message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None) -> str:
    return f"{category.__name__}: {message} ({filename}:{lineno})"


def _log_thread(arguments: threading.ExceptHookArgs) -> None:
    if arguments.exc_type is SystemExit or arguments.exc_value is None:
        return
    name = arguments.thread.name if arguments.thread else "?"
    trace = (arguments.exc_type, arguments.exc_value, arguments.exc_traceback)
    logging.getLogger("dsv4_gate").error("thread %s ended by an exception", name, exc_info=trace)
