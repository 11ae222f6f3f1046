"""The flags that a command line of the engine or of a router declares, read from its sources."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

_FLAG = re.compile(r"--[a-z0-9][a-z0-9-]+")
_ENGINE = ("sglang/srt/server_args.py", "sglang/srt/arg_groups")


def engine_flags(root: Path) -> tuple[set[str], set[str]]:
    """(every flag, the deprecated ones) of SGLang's server."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for part in _ENGINE for path in _files(root / part)]
    flags = {flag for tree in trees for flag in (*_named(tree), *_fields(tree))}
    return flags, {flag for tree in trees for flag in _deprecated(tree)}


def router_flags(root: Path, package: str) -> set[str]:
    """Flags of a router; smg takes them under a prefix too when it runs beside an engine, these are left out."""
    return {flag for path in _files(root / package) for flag in _named(ast.parse(path.read_text(encoding="utf-8")))}


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(path.rglob("*.py"))


def _named(tree: ast.AST) -> Iterator[str]:
    r"""Flags that stand as strings of their own: arguments of add_argument, aliases; an f-string's prefix is left out.

    >>> source = "p.add_argument(f'--{prefix}host', '--port', help='see --other'); A(aliases=['--model'])"
    >>> sorted(_named(ast.parse(source)))
    ['--host', '--model', '--port']
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _FLAG.fullmatch(node.value):
            yield node.value
        elif isinstance(node, ast.JoinedStr) and len(node.values) == 3:
            start, _, rest = node.values
            if isinstance(start, ast.Constant) and start.value == "--" and isinstance(rest, ast.Constant):
                yield f"--{rest.value!s}"


def _fields(tree: ast.AST) -> Iterator[str]:
    """Flags that SGLang derives from annotated fields.

    >>> fields = "class Serving:\\n  port: A[int, 'help'] = 1\\n  inner: A[int, Arg(no_cli=True)] = 1\\n  plain: int"
    >>> list(_fields(ast.parse(fields)))
    ['--port']
    """
    for owner in ast.walk(tree):
        for node in owner.body if isinstance(owner, ast.ClassDef) else ():
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                kind = ast.unparse(node.annotation)
                if kind.startswith(("A[", "Annotated[")) and "no_cli=True" not in kind:
                    yield "--" + node.target.id.replace("_", "-")


def _deprecated(tree: ast.AST) -> Iterator[str]:
    """Flags registered with an action that says so."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and "Deprecated" in "".join(ast.unparse(word.value) for word in node.keywords):
            yield from (flag for argument in node.args for flag in _named(argument))
