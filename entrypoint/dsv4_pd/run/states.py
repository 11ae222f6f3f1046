"""The states of an appliance and their groups: one list for guard, health probe, console and clients."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal


class StateName(StrEnum):
    """What the appliance as a whole is doing."""

    DOWNLOADING = "DOWNLOADING"  # the model is on its way; no server is started yet
    BOOTING = "BOOTING"  # no server process is up yet
    LOADING = "LOADING"  # a server does not answer /ready yet
    WARMING = "WARMING"  # servers ready; router, link or proof not yet
    JOINABLE = "JOINABLE"  # a member of several hosts: it would serve, and no request of a router has crossed it lately
    READY = "READY"  # a request went through, end to end
    DEGRADED = "DEGRADED"  # serving, but something is silent or unproved
    RECOVERING = "RECOVERING"  # not serving, on the way back
    SAFE = "SAFE"  # stays up for inspection, starts nothing
    FAILED = "FAILED"  # ending with a cause
    STOPPING = "STOPPING"  # ending because it was told to


WAY = frozenset({"front", "router"})  # the programs between a client and the servers; every other one is a server
SERVING = frozenset({StateName.JOINABLE, StateName.READY, StateName.DEGRADED})
PROVED = frozenset({StateName.JOINABLE, StateName.READY})  # a start that has come to its end
ARRIVING = frozenset({StateName.DOWNLOADING})  # before the guard is: the download's own process says so
STARTING = frozenset({StateName.BOOTING, StateName.LOADING, StateName.WARMING})
CLOSING = frozenset({StateName.FAILED, StateName.STOPPING})
# How a state looks wherever it is shown: on the page, on the terminal.
TONES: Mapping[StateName, Literal["busy", "good", "warn", "bad"]] = {
    StateName.DOWNLOADING: "busy",
    StateName.BOOTING: "busy",
    StateName.LOADING: "busy",
    StateName.WARMING: "busy",
    StateName.JOINABLE: "good",
    StateName.READY: "good",
    StateName.DEGRADED: "warn",
    StateName.RECOVERING: "warn",
    StateName.SAFE: "bad",
    StateName.FAILED: "bad",
    StateName.STOPPING: "busy",
}
