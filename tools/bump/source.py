"""Python packages as they lie in a folder (site-packages, or an unpacked wheel), looked up without importing them."""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path

HOLE = "\0"  # stands for what a program fills in at run time
# %-formats and the fields of str.format; f-strings are split by the parser itself
_FORMAT = re.compile(r"%(?:\(\w+\))?[-#0 +]*\d*(?:\.\d+)?[sdrfxi]|\{[\w.!:,%<>^]*\}")
_MOST_STEPS = 12  # imports and base classes followed for one name
# of the engine: what no server of ours runs
_SKIPPED = ("multimodal_gen", "test", "lang")
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Sources:
    """Lookups by dotted path."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @cache  # noqa: B019, one object a run
    def module(self, dotted: str) -> ast.Module | None:
        """The parsed module, None where there is none."""
        base = self.root.joinpath(*dotted.split("."))
        for path in (base.with_suffix(".py"), base / "__init__.py"):
            if path.is_file():
                return ast.parse(path.read_text(encoding="utf-8"))
        return None

    def has_package(self, name: str) -> bool:
        """Whether a top-level package lies here at all."""
        return (self.root / name).is_dir() or (self.root / f"{name}.py").is_file()

    def find(self, dotted: str, steps: int = 0) -> ast.AST | None:
        """The definition of a dotted path, through imports and base classes; a module for a module's own name."""
        parts = dotted.split(".")
        for cut in range(len(parts), 0, -1):
            module = self.module(".".join(parts[:cut]))
            if module is not None:
                package = [] if self.root.joinpath(*parts[:cut]).with_suffix(".py").is_file() else ["__init__"]
                return self._within(module, ".".join([*parts[:cut], *package]), parts[cut:], steps)
        return None

    def _within(self, owner: ast.AST, module: str, names: list[str], steps: int) -> ast.AST | None:
        if not names or steps > _MOST_STEPS:
            return owner if not names else None
        for node in _statements(owner):
            if isinstance(node, ast.ImportFrom) and (path := _imported(node, module, names[0])):
                found = self.find(".".join([path, *names[1:]]), steps + 1)
                if found is not None or not self.has_package(path.split(".")[0]):
                    return found or node  # of a package that is not here: the statement is all there is to see
            elif names[0] in _defined(node):
                return self._within(node, module, names[1:], steps)
        return self._inherited(owner, module, names, steps)

    def _inherited(self, owner: ast.AST, module: str, names: list[str], steps: int) -> ast.AST | None:
        for base in owner.bases if isinstance(owner, ast.ClassDef) else ():
            found = self.find(".".join([module, ast.unparse(base).split("[")[0], *names]), steps + 1)
            if found is not None:
                return found
        return None

    @cached_property
    def texts(self) -> frozenset[str]:
        """Every string of the engine's own code, with a HOLE where a value goes."""
        found = sorted((self.root / "sglang").rglob("*.py"))
        files = [path for path in found if not set(_SKIPPED) & set(path.relative_to(self.root).parts)]
        return frozenset(text for path in files for text in strings(ast.parse(path.read_text(encoding="utf-8"))))


def _statements(owner: ast.AST) -> Iterator[ast.AST]:
    """Statements of a body, those under if, try and with included."""
    for node in getattr(owner, "body", ()):
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With):
            yield from _statements(node)
            for more in (*getattr(node, "handlers", ()), *getattr(node, "orelse", ()), *getattr(node, "finalbody", ())):
                yield from (more, *_statements(more))


def _defined(node: ast.AST) -> set[str]:
    """Names that a statement defines, imports aside."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return {node.name}
    if isinstance(node, ast.Assign):
        return {name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return {node.target.id}
    return set()


def _imported(node: ast.ImportFrom, module: str, name: str) -> str | None:
    """Where `name` comes from, if this statement may bring it.

    >>> statement = ast.parse("from .base import Base as B").body[0]
    >>> _imported(statement, "pkg.sub.mod", "B"), _imported(statement, "pkg.sub.mod", "Base")
    ('pkg.sub.base.Base', None)
    """
    above = module.split(".")[: -node.level] if node.level else []
    source = ".".join([*above, *filter(None, [node.module])])
    for alias in node.names:
        if alias.name == "*":
            return f"{source}.{name}"
        if (alias.asname or alias.name) == name:
            return f"{source}.{alias.name}"
    return None


def parameters(node: Function) -> tuple[str, ...]:
    """As inspect.signature lists them.

    >>> parameters(ast.parse("def f(a, /, b, *c, d, **e): ...").body[0])
    ('a', 'b', 'c', 'd', 'e')
    """
    a = node.args
    named = [*a.posonlyargs, *a.args, *([a.vararg] if a.vararg else []), *a.kwonlyargs, *([a.kwarg] if a.kwarg else [])]
    return tuple(argument.arg for argument in named)


def fields(node: ast.AST) -> set[str]:
    """The annotated names of a class."""
    return {name for part in getattr(node, "body", ()) if isinstance(part, ast.AnnAssign) for name in _defined(part)}


def digest(node: ast.AST) -> str:
    """Of what the code does: comments, docstrings and layout play no part.

    >>> one, two = ast.parse("def f():\\n  'a'\\n  return 1").body, ast.parse("def f(): return 1  # b").body
    >>> digest(one[0]) == digest(two[0]) != digest(ast.parse("def f(): return 2").body[0])
    True
    """
    bare = ast.parse(ast.unparse(node))
    for part in ast.walk(bare):
        body = getattr(part, "body", None)
        if isinstance(body, list) and body and _is_docstring(body[0]):
            part.body = body[1:]  # type: ignore[attr-defined]
    return hashlib.sha256(ast.dump(bare).encode()).hexdigest()[:16]


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def strings(tree: ast.AST) -> Iterator[str]:
    r"""The string constants and f-strings, with a HOLE for each value.

    >>> sorted(strings(ast.parse("log(f'{a} of {b}', 'took %.1f s', 'x' 'y')")))
    ['\x00 of \x00', 'took \x00 s', 'xy']
    """
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(p.value) if isinstance(p, ast.Constant) else HOLE for p in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield _FORMAT.sub(HOLE, node.value)
