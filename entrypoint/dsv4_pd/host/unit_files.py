"""What a systemd unit starts, where that is a model server or its router: functions of its text and command line."""

from __future__ import annotations

import re

_SERVER_WORDS = re.compile(r"sglang|vllm|trtllm|text-generation|llama-server", re.IGNORECASE)
_PORT_FLAGS = re.compile(r"--(?:[a-z-]*port|prometheus-port)[ =]+([0-9]{2,5})\b")


def unit_command(text: str) -> str | None:
    """The start command of a systemd unit that runs a model server or its router, on one line; else None.

    >>> unit_command("[Service]\\nExecStart=/opt/v/bin/python -m sglang.launch_server \\\\\\n  --port 30000\\n")
    '/opt/v/bin/python -m sglang.launch_server --port 30000'
    """
    joined = re.sub(r"\\\n\s*", "", text)
    starts: list[str] = []  # an empty one clears the list, as a drop-in does
    for start in re.findall(r"^ExecStart=[-@:+!|]*([^\n]*)$", joined, re.MULTILINE):
        starts = [*starts, start.strip()] if start.strip() else []
    return next((start for start in starts if _SERVER_WORDS.search(start)), None)


def command_ports(command: str) -> tuple[int, ...]:
    """Ports on a server's command line.

    >>> command_ports("python -m sglang_router.launch_router --port 8000 --prefill http://127.0.0.1:30000 8998")
    (8000, 30000, 8998)
    """
    found = [int(port) for port in _PORT_FLAGS.findall(command)]
    for port, bootstrap in re.findall(r"https?://[^\s:/]+:([0-9]{1,5})\b/?(?:\s+([0-9]{2,5})\b)?", command):
        found += [int(port)] + ([int(bootstrap)] if bootstrap else [])
    return tuple(dict.fromkeys(found))
