"""Every test belongs to a ring: what `make test-all` selects, and what CI does, is all that there is."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EVERYWHERE = ["tests", "entrypoint", "hooks", "gate", "tools"]


@cache
def collected(*arguments: str) -> set[str]:
    """What pytest would run in the control plane's environment."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 5), done.stdout[-2000:]
    return {line for line in done.stdout.splitlines() if "::" in line and not line.startswith(" ")}


def rings(*targets: str) -> list[list[str]]:
    """The arguments of each pytest command in the control plane's environment."""
    recipe = subprocess.run(["make", "-n", *targets], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    lines = recipe.replace("\\\n", " ").splitlines()
    return [shlex.split(words[1]) for line in lines if len(words := line.split("/dev/bin/python -m pytest")) == 2]


CI = re.findall(r"^ring\w* \S+ make (\S+)", (ROOT / ".ci/run").read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.slow
def test_every_test_is_in_a_ring() -> None:
    for targets in (["test-all"], CI):  # together: both collect the same rings
        ran = set[str]().union(*(collected(*ring) for ring in rings(*targets)))
        assert len(ran) > 1000, targets
        assert not sorted(collected(*EVERYWHERE) - ran), f"{targets} run none of these; see make/*.mk and testpaths"
