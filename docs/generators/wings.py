"""The wings of the entrypoint and who uses whom, drawn from the imports themselves."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "entrypoint/dsv4_pd"
BEGIN, END = "<!-- wings:begin -->", "<!-- wings:end -->"
ROOT = PACKAGE.name


def wing_of(parts: tuple[str, ...]) -> str:
    """The wing that a module or folder stands in; `run` is shown by its rooms and modules.

    >>> wing_of(("dsv4_pd", "plan", "programs")), wing_of(("dsv4_pd", "run", "guard", "policy"))
    ('plan', 'run/guard')
    >>> wing_of(("dsv4_pd", "errors")), wing_of(("dsv4_pd", "run", "serve"))
    ('errors', 'run/serve')
    """
    if parts[1:2] == ("run",) and len(parts) > 2:
        return f"run/{parts[2]}"
    return parts[1] if len(parts) > 1 else ROOT


def imports(source: str) -> Iterator[tuple[str, ...]]:
    """Every module of ours that a source file imports, late imports included."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == ROOT:
            base = tuple(node.module.split("."))
            for name in node.names:
                deeper = PACKAGE.joinpath(*base[1:], name.name)
                yield (*base, name.name) if deeper.is_dir() or deeper.with_suffix(".py").exists() else base
        elif isinstance(node, ast.Import):
            yield from (tuple(name.name.split(".")) for name in node.names if name.name.startswith(f"{ROOT}."))


def arrows() -> frozenset[tuple[str, str]]:
    """(wing, wing that it uses); `errors`, which all use, is left out."""
    found: set[tuple[str, str]] = set()
    for path in PACKAGE.rglob("*.py"):
        parts = (ROOT, *path.relative_to(PACKAGE).with_suffix("").parts)
        user = wing_of(parts)
        found |= {(user, wing_of(used)) for used in imports(path.read_text(encoding="utf-8"))}
    return frozenset((a, b) for a, b in found if a != b and {a, b}.isdisjoint({ROOT, "errors", "__main__"}))


def mermaid() -> str:
    """The picture: only the arrows that no longer way says already."""
    drawn = arrows()
    kept = sorted(edge for edge in drawn if not _reaches(edge, drawn - {edge}))
    names = {name: name.replace("/", "_") for edge in drawn for name in edge}
    boxes = [f'    {box}["{name}"]' for name, box in sorted(names.items())]
    return "\n".join(["graph TD", *boxes, *(f"    {names[a]} --> {names[b]}" for a, b in kept)])


def _reaches(edge: tuple[str, str], among: frozenset[tuple[str, str]]) -> bool:
    begun, wanted = edge
    seen, front = {begun}, [begun]
    while front:
        here = front.pop()
        following = {b for a, b in among if a == here} - seen
        if wanted in following:
            return True
        seen |= following
        front += following
    return False


def fill(page: str) -> str:
    """The page with the picture between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n```mermaid\n{mermaid()}\n```\n{END}{after}"
