"""The ring itself, part by part, where a card and the CUDA engine are: `make test-gpu`. Its records go to RING_OUT."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from gpu.__main__ import PARTS

pytestmark = pytest.mark.gpu

TESTS = Path(__file__).resolve().parents[1]
ROOT = Path(os.environ.get("RING_ROOT", "/opt/dsv4-pd"))
PYTHON = ROOT / "venvs/engine/bin/python"


@pytest.mark.parametrize("part", list(PARTS))
def test_part(part: str) -> None:
    if not PYTHON.exists():
        pytest.skip(f"no CUDA engine: {PYTHON} does not exist; make gpu-kit and its setup.sh put it there")
    env = {**os.environ, "PYTHONPATH": str(TESTS), "RING_ROOT": str(ROOT)}
    done = subprocess.run([str(PYTHON), "-m", "gpu", part], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
