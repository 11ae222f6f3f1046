"""hooks/dsv4_hooks/engine.py: the engine's version, from docker/engine.in, for code that can't read that file."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = '''"""The engine that every hook was written for.

The number comes from docker/engine.in: `make docs` writes this file, `make check` fails while the two differ.
"""

from __future__ import annotations

ENGINE_VERSION = "{version}"
'''


def text() -> str:
    """The module. Raises ValueError where the file pins no version."""
    requirements = (ROOT / "docker/engine.in").read_text(encoding="utf-8")
    found = re.search(r"^sglang==(\S+)$", requirements, re.MULTILINE)
    if not found:
        raise ValueError("docker/engine.in: found no line sglang==VERSION, expected one: pin the engine there")
    return PAGE.format(version=found[1])
