"""`tune` starts appliances of its own: never beside one that serves, nor on cards that somebody else uses."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dsv4_pd.errors import Problem, TemporaryError
from dsv4_pd.plan.notices import NoticeKind
from dsv4_pd.plan.situation import Situation

_REMEDY = "stop it first (docker compose stop, or TERM to dsv4-pd serve): tune takes the whole machine"


def refuse(situation: Situation) -> None:
    """Nothing, when nothing is in the way.

    Raises:
        TemporaryError: an appliance runs, a port of the plan is taken, or a card is in use.
    """
    found = []
    if situation.around.running:
        where = str(situation.around.paths.run)
        found.append(Problem(f"run folder {where}", "an appliance that runs", "none", _REMEDY))
    for port, code in () if situation.around.running else situation.busy_ports:
        found.append(
            Problem(
                f"{port.setting} {port.number}",
                os.strerror(code).lower(),
                "free ports: nothing may serve here",
                _REMEDY,
            )
        )
    busy = (notice for notice in situation.notices if notice.kind is NoticeKind.CARD_BUSY)
    found += [Problem("GPU", notice.text, "cards that nobody uses", _REMEDY) for notice in busy]
    if found:
        raise TemporaryError(found)


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """One experiment at a time on a state folder: two would measure each other.

    Raises:
        TemporaryError: there is another.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            problem = Problem(
                str(folder), "another dsv4-pd tune", "one at a time", "wait for it, or end it with Ctrl-C"
            )
            raise TemporaryError([problem]) from error
        yield
