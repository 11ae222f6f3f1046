"""Versions: Semantic Versioning, in the form that Python's, Docker's and git's names all take."""

from __future__ import annotations

import re

from packaging.version import Version

ACCEPTS = "MAJOR.MINOR.PATCH, before it is final with -rc.N behind it (0.2.0, 0.2.0-rc.1)"
_FORM = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-rc\.(0|[1-9]\d*))?")


def parse(text: str) -> Version:
    """A version that can be compared.

    >>> parse("0.10.0") > parse("0.9.1"), parse("1.0.0-rc.2") < parse("1.0.0")
    (True, True)

    Raises:
        ValueError: it is none.
    """
    if not _FORM.fullmatch(text):
        raise ValueError(ACCEPTS)
    return Version(text)


def tags(text: str) -> tuple[str, ...]:
    """The image's tags: a final one moves its minor version's along.

    >>> tags("0.2.1"), tags("0.2.1-rc.1")
    (('0.2.1', '0.2'), ('0.2.1-rc.1',))
    """
    return (text,) if parse(text).is_prerelease else (text, text.rpartition(".")[0])
