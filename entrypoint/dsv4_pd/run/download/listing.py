"""The files of a revision that a server reads, with their sizes and hashes."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatch

# What a server reads; a repository may hold other formats of the same weights beside it.
PATTERNS = ("*.json", "*.safetensors", "tokenizer*", "*.txt", "*.jinja", "*.py", "encoding/*")


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file of a revision; its ETag is its hash: SHA-256 of a large file, git's SHA-1 of a small one."""

    name: str
    size: int
    etag: str


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of a revision that a server reads."""

    commit: str
    files: tuple[RemoteFile, ...]


def wanted(name: str) -> bool:
    """Whether a server reads a file of this name.

    >>> wanted("model-00001-of-00046.safetensors"), wanted("assets/figure.png")
    (True, False)
    """
    return any(fnmatch(name, pattern) for pattern in PATTERNS)
