"""Who may import what in dsv4_kernels, read from the source: late imports inside functions count too."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from dsv4_kernels import layout

PACKAGE = Path(__file__).resolve().parents[2] / "kernels" / "dsv4_kernels"
MODULES = sorted(PACKAGE.rglob("*.py"))


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def roots(path: Path) -> set[str]:
    return {name.partition(".")[0] for name in imports(path)}


def named(*names: str) -> list[Path]:
    chosen = [path for path in MODULES if path.name in names]
    assert chosen, names
    return chosen


@pytest.mark.parametrize("path", named("layout.py", "tiling.py", "cards.py", "settings.py", "table.py"), ids=str)
def test_tables_need_no_gpu_stack(path: Path) -> None:
    assert not roots(path) & {"torch", "triton", "sglang"}


@pytest.mark.parametrize("path", named("reference.py"), ids=str)
def test_a_reference_never_sees_triton(path: Path) -> None:
    assert "triton" not in roots(path)
    assert not {name for name in imports(path) if name.endswith((".kernel", ".op", ".device"))}


@pytest.mark.parametrize("path", named("kernel.py"), ids=str)
def test_a_kernel_needs_only_triton(path: Path) -> None:
    assert not roots(path) & {"torch", "sglang"}


def test_only_the_plugin_imports_sglang() -> None:
    """Through dsv4_hooks: it alone imports the engine's registry, and the plugin imports the engine by name."""
    assert not [path for path in MODULES if "sglang" in roots(path)]
    named = {path.parent.name for path in MODULES if re.search(r'import_module\("sglang', path.read_text())}
    assert named == {"sglang_plugin"}


@pytest.mark.parametrize("path", named("kernel.py"), ids=str)
def test_a_kernel_takes_the_layout_from_layout(path: Path) -> None:
    """No byte size, page size or dimension of layout.py stands in a kernel as a number."""
    sizes = {value for name, value in vars(layout).items() if name.isupper() and type(value) is int and value >= 400}
    numbers = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
    threads = {512} if path.parent.name == "indexer_topk" else set()  # 16 warps
    assert not (sizes & {number for number in numbers if type(number) is int}) - threads


def test_the_environment_is_read_in_one_place() -> None:
    """Setting a variable for a library of one's own process is no reading."""
    sources = {path.name: re.sub(r"os\.environ\[.*?\] = ", "", path.read_text()) for path in MODULES}
    readers = {name for name, source in sources.items() if re.search(r"\benviron\b|getenv", source)}
    assert readers == {"settings.py"}
