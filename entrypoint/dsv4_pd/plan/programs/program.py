"""What supervisord runs, as plain data: rendering, doctor, guard and tests all read the same value."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dsv4_pd.plan.placement.members import Port

# Stands in a plan for what each run decides for itself: a secret drawn when the files are written, a branch's commit.
PER_RUN = "<per run>"


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file that a program reads; mode 0600 because it may hold the API key."""

    path: Path
    text: str
    mode: int = 0o600

    @property
    def drawn(self) -> bool:
        """Whether the text is a secret of one run, which no plan knows."""
        return self.text == PER_RUN


@dataclass(frozen=True, slots=True)
class Program:
    """One supervised process tree."""

    name: str  # a member's ("prefill", "decode-2"), "router", "front", "guard"
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
