"""A secret that comes from a file."""

from __future__ import annotations

from pathlib import Path

from dsv4_pd.errors import Problem

_SECRET_MAX = 64 * 1024  # bytes of a secret's file that are read at most


def read_secret(path: Path) -> str:
    """The secret in a file, without the line end that editors put after it.

    Raises:
        OSError: it can't be read.
        ValueError: it is no file of text, or empty; the message says which.
    """
    if not (path.is_file() or path.is_char_device()):  # a pipe would block the start
        path.stat()  # absent: its own error
        raise ValueError("no file")
    with path.open("rb") as file:
        data = file.read(_SECRET_MAX + 1)  # /dev/zero has no end
    if len(data) > _SECRET_MAX:
        raise ValueError(f"longer than {_SECRET_MAX} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ValueError("not UTF-8 text") from error
    text = text.removesuffix("\n").removesuffix("\r")
    if not text:
        raise ValueError("empty")
    return text


def unreadable(name: str, path: str, error: Exception) -> Problem:
    """A secret's file that can't be used, in the operator's words."""
    reason = (error.strerror or "unreadable") if isinstance(error, OSError) else str(error)
    remedy = (
        f"write the secret into it, or unset {name}" if reason == "empty" else "mount the secret there, or fix the path"
    )
    return Problem(name, f"{path!r} ({reason})", "a readable file that holds the secret alone", remedy)
