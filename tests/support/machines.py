"""Facts of a machine for tests: of a capture where a folder holds one, else of the live files below it."""

from __future__ import annotations

from pathlib import Path

from dsv4_pd.host.facts import HostFacts
from dsv4_pd.host.machine import CAPTURE_FILE, Live, Replay
from dsv4_pd.host.read import facts_of


def read_facts(root: Path = Path("/")) -> HostFacts:
    """Everything that placement and checks may know about the machine below a root."""
    return facts_of(Replay(root) if (root / CAPTURE_FILE).is_file() else Live(root))
