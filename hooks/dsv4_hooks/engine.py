"""The engine that every hook was written for.

The number comes from docker/engine.in: `make docs` writes this file, `make check` fails while the two differ.
"""

from __future__ import annotations

ENGINE_VERSION = "0.5.23"
