"""Lines that alarm a reader and mean nothing; each with the reason why it is left out of the stream.

They stay in the programs' own logs under the run folder.
"""

from __future__ import annotations

import re

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_NOISE = re.compile(
    "|".join(
        (
            # The router calls a probe's 503 an error, several times a second while the servers load.
            r"http_request\{method=GET uri=/(?:readiness|health|liveness|workers)\b",
            # smg greets with a drawing of fifteen lines.
            r"[\u2800-\u28ff]{6}",
            # It first speaks gRPC to each worker to find out that it is HTTP; the worker's HTTP server says this.
            r"WARNING:\s+Invalid HTTP request received\.",
            # The guard offers the workers as soon as they answer; the router's own attempt comes second.
            r"Worker http://\S+ already exists",
            r"Workflow failed due to step dependency failure",
            # It asks servers that still load whether they are there, every five seconds and once for each.
            r"Step failed: detect_connection_mode",
            r'"message":"Step failed".*"step_id":"detect_connection_mode"',
        )
    )
)
_LEVELS = {"debug": 0, "info": 1, "warning": 2, "error": 3}
_CLAIMS = {"ERROR": "error", "CRITICAL": "error", "WARNING": "warning", "WARN": "warning", "DEBUG": "debug"}


def plain(line: str) -> str:
    """The line without terminal colours, which the router writes even to a file.

    >>> plain("\\x1b[31mERROR\\x1b[0m x")
    'ERROR x'
    """
    return _COLOUR.sub("", line)


def level(line: str) -> str:
    """The level that a line claims for itself.

    >>> level("[2026-11-29 15:00:00] WARNING model_runner.py:1: slow")
    'warning'
    """
    head = line[:120]
    return next((name for word, name in _CLAIMS.items() if word in head), "info")


def worth_showing(line: str, threshold: str) -> bool:
    """Whether a line of a program belongs in the stream at this level.

    >>> worth_showing("[...] WARNING:  Invalid HTTP request received.", "info")
    False
    """
    return _LEVELS[level(line)] >= _LEVELS[threshold] and not _NOISE.search(line)
