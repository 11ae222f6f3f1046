"""What dsv4_hooks may import: it stands in the engine's environment, below every plugin."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted((ROOT / "hooks/dsv4_hooks").glob("*.py"))
PLUGINS = {"gate": "dsv4_gate", "kernels": "dsv4_kernels", "demo/plugin": "dsv4_cpu_pd"}


def roots(path: Path) -> set[str]:
    """Packages that a file imports, late imports included."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    return {name.partition(".")[0] for name in names}


def test_the_standard_library_and_the_engine_only() -> None:
    assert set[str]().union(*map(roots, MODULES)) - set(sys.stdlib_module_names) == {"dsv4_hooks", "sglang"}
    assert [path.name for path in MODULES if "sglang" in roots(path)] == ["table.py"]


@pytest.mark.parametrize(("folder", "package"), PLUGINS.items())
def test_a_plugin_uses_the_base_and_no_other_plugin(folder: str, package: str) -> None:
    used = set[str]().union(*map(roots, (ROOT / folder / package).rglob("*.py")))
    assert "dsv4_hooks" in used
    assert not used & (set(PLUGINS.values()) | {"dsv4_pd"}) - {package}


@pytest.mark.parametrize("package", PLUGINS)
def test_a_plugin_says_that_it_needs_the_base(package: str) -> None:
    assert 'dependencies = ["dsv4-hooks"]' in (ROOT / package / "pyproject.toml").read_text()


def test_the_control_plane_knows_the_record_by_its_file_alone() -> None:
    assert not [path for path in (ROOT / "entrypoint").rglob("*.py") if "dsv4_hooks" in roots(path)]
