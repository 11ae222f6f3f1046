"""What supervisord runs, as plain data: rendering, doctor, guard and tests all read the same value."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Port:
    """A TCP port a program listens on, and the setting that moves it."""

    setting: str
    host: str
    number: int


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file that a program reads; mode 0600 because it may hold the API key."""

    path: Path
    text: str
    mode: int = 0o600


@dataclass(frozen=True, slots=True)
class Program:
    """One supervised process tree."""

    name: str  # "prefill", "decode", "single", "router", "guard"
    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    numa_node: int | None
    gpus: tuple[str, ...]  # UUIDs
    ports: tuple[Port, ...]
    ready_url: str | None
    log_path: Path
    files: tuple[ConfigFile, ...] = ()
    autorestart: bool = False  # servers are restarted by the guard, by policy
    stop_wait_s: int = 10
