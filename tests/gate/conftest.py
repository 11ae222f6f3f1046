"""The gate's rules are plain functions: they are tested without the engine, straight from the source folder."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "gate"))
