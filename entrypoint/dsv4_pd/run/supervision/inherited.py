"""What `serve` was given by whoever started it, made fit to be handed on: standard streams and descriptor limits."""

from __future__ import annotations

import os
import resource

# The engine asks for 65,535 itself; the router takes one for each client and one for each server behind it.
NOFILE_FLOOR = 65_536
# Programs that close every possible descriptor before they start a child crawl above this (moby/moby#38814).
NOFILE_CEILING = 1_048_576


def repair() -> None:
    """Open closed standard streams, and set the soft limit of open files within the hard one."""
    _streams()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = sane_nofile(soft, hard)
    if wanted != soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def sane_nofile(soft: int, hard: int) -> int:
    """The soft limit that our programs get: raised as far as the hard one allows, and lowered from the absurd.

    >>> sane_nofile(1024, 524288), sane_nofile(1024, 4096), sane_nofile(1 << 30, 1 << 30), sane_nofile(-1, -1)
    (65536, 4096, 1048576, 1048576)
    """
    most = NOFILE_CEILING if hard == resource.RLIM_INFINITY else min(hard, NOFILE_CEILING)
    if soft == resource.RLIM_INFINITY or soft > most:
        return most
    return max(soft, min(NOFILE_FLOOR, most))


def _streams() -> None:
    """A closed one would be the next file that is opened, and a child would write its output there."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
