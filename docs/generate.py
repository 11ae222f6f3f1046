"""Write the generated files, or check that they are fresh: `python docs/generate.py [--check]`.

Each generator is a function from nothing to text; what it describes is the code itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from generators import decisions, deprecations, diagram, engine, presets, troubleshooting, wings
from generators.env import compose_text, env_example, env_markdown

ROOT = Path(__file__).resolve().parents[1]
FILES: dict[str, Callable[[], str]] = {
    "docs/env.md": env_markdown,
    ".env.example": lambda: compose_variables() + env_example(),
    "compose.yaml": lambda: compose_text(_read(ROOT / "compose.yaml")),
    "docs/presets.md": presets.text,
    "docs/troubleshooting.md": troubleshooting.text,
    "hooks/dsv4_hooks/engine.py": engine.text,
    "docs/adr/README.md": decisions.text,
    "docs/compatibility.md": lambda: deprecations.fill(_read(ROOT / "docs/compatibility.md")),
    "docs/health.md": lambda: diagram.fill(_read(ROOT / "docs/health.md")),
    "docs/architecture.md": lambda: wings.fill(_read(ROOT / "docs/architecture.md")),
}


def compose_variables() -> str:
    """The compose file's own variables, which the control plane never sees."""
    return (ROOT / "docker/compose.env").read_text(encoding="utf-8")


def main() -> int:
    """Returns 1 when `--check` finds a stale file."""
    stale = [name for name, make in FILES.items() if _read(ROOT / name) != make()]
    if "--check" in sys.argv:
        for name in stale:
            print(f"{name} is stale: run `make docs`", file=sys.stderr)
        return int(bool(stale))
    for name in stale:
        (ROOT / name).write_text(FILES[name](), encoding="utf-8")
        print(f"wrote {name}")
    return 0


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
