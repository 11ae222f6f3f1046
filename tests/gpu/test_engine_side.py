"""What the ring has in the engine's environment, on its CPU build: formats, oracle, forced tokens, faults, flags."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from conftest import VENVS

pytestmark = pytest.mark.engine

TESTS = Path(__file__).resolve().parents[1]
NAMES = re.findall(r"^    ([a-z0-9_]+),$", (Path(__file__).parent / "engine_side.py").read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def said() -> str:
    paths = (TESTS, TESTS / "gpu/engine", TESTS.parent)
    env = {**os.environ, "PYTHONPATH": ":".join(map(str, paths)), "OMP_NUM_THREADS": "1"}
    python = str(VENVS / "engine" / "bin" / "python")
    done = subprocess.run([python, "-Wignore", "-m", "gpu.engine_side"], capture_output=True, text=True, env=env,
                          check=False, timeout=300)  # fmt: skip
    return done.stdout + done.stderr[-2000:]


@pytest.mark.parametrize("name", NAMES)
def test_in_the_engine_s_environment(said: str, name: str) -> None:
    assert f"passed {name}\n" in said, said


def test_all_are_named() -> None:
    assert len(NAMES) == 10
