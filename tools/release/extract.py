"""What is promised, read out of code. Each function takes the code's own objects, so that it can read another tree.

A group is a dictionary of names, each with the details that are promised of it (docs/compatibility.md).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import yaml

Details = dict[str, Any]
Group = dict[str, Details]
_SERVICES = ("dsv4-pd", "demo")  # ours; the others are examples


def settings(env_page: str) -> Group:
    """From the generated table of docs/env.md: default, and the words that are accepted or "any".

    >>> settings("| `DSV4_A` | `1` | `x` \\\\| `y` | A. |\\n| `DSV4_B` | – | text | B. |")
    {'DSV4_A': {'default': '1', 'values': ['x', 'y']}, 'DSV4_B': {'default': '', 'values': 'any'}}
    """
    rows = re.findall(r"^\| `(DSV4_\w+)` \| (.*?) \| (.*?) \| .*\|$", env_page.replace("\\|", "\x00"), re.MULTILINE)
    found: Group = {}
    for name, default, values in rows:
        words = [word.strip(" `") for word in values.split("\x00")]
        listed: Any = words if values.startswith("`") else "any"
        found[name] = {"default": default.strip("`") if default != "–" else "", "values": listed}
    return found


def exit_codes(root: type[Any]) -> Group:
    """The tree of errors, and a clean stop."""
    kinds = [root, *root.__subclasses__()]
    return {"0": {"of": "stopped on request"}} | {str(kind.exit_code): {"of": kind.__name__} for kind in kinds}


def ops_routes(app: Any) -> Group:
    """Of an aiohttp application; HEAD comes with GET."""
    routes = (f"{route.method} {route.resource.canonical}" for route in app.router.routes() if route.method != "HEAD")
    return {name: {} for name in sorted(routes)}


def metrics(families: Iterable[Any]) -> Group:
    """Name -> kind and labels, of families that have at least one series each."""
    found: Group = {}
    for family in families:
        labels = {label for line in family.lines for label in re.findall(r'[{,](\w+)="', line)} - {"le"}
        found[family.name] = {"kind": family.kind, "labels": sorted(labels)}
    return found


def states(names: Iterable[str], ready_of: Callable[..., Any], live_of: Callable[..., Any]) -> Group:
    """State -> what /readyz and /livez say in it."""
    return {
        str(name): {"readyz": ready_of({"state": name})[0], "livez": live_of({"state": name}, 0.0)[0]} for name in names
    }


def fields(source: str, below: Mapping[str, str], prefix: str = "") -> Group:
    """The keys of the document: of each function in a source, below the name that the document has for it.

    >>> sorted(fields('def a():\\n x = {"b": {"c": 1}}\\n x["d"] = 2', {"a": "top"}))
    ['top.b', 'top.b.c', 'top.d']
    """
    found: set[str] = set()
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef) and function.name in below:
            found |= {".".join(filter(None, (prefix, below[function.name], key))) for key in _keys(function)}
    return {name: {} for name in sorted(found)}


def _keys(node: ast.AST, above: str = "") -> Iterator[str]:
    """Keys of dictionaries as they are nested, and keys that are assigned."""
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            name = f"{above}{key.value}" if isinstance(key, ast.Constant) and isinstance(key.value, str) else ""
            if name:
                yield name
            inside = name + ("." if isinstance(value, ast.Dict) else ".*.") if name else above
            yield from _keys(value, inside)
        return
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and isinstance(node.slice, ast.Constant):
        yield f"{above}{node.slice.value!s}"
    for child in ast.iter_child_nodes(node):
        yield from _keys(child, above)


def commands(group: Any, prefix: str = "") -> Group:
    """Every command and subcommand of a click group, with its options and arguments."""
    found: Group = {}
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        words = [word for one in command.params for word in (*one.opts, *one.secondary_opts)]
        found[f"{prefix}{name}"] = {"options": sorted(word for word in words if word.startswith("-"))}
        if hasattr(command, "list_commands"):
            found |= commands(command, f"{prefix}{name} ")
    return found


def compose(file: str, variables: str) -> Group:
    """Services, profiles, volumes with their places, and the file's own variables, which are no settings."""
    parsed = yaml.safe_load(file)
    found: Group = {f"variable {name}": {} for name in re.findall(r"^#?([A-Z][A-Z0-9_]+)=", variables, re.MULTILINE)}
    for name, service in parsed["services"].items():
        found[f"service {name}"] = {"profiles": service.get("profiles", [])}
        if name in _SERVICES:
            mounts = [str(mount).replace(":ro", "").rpartition(":") for mount in service["volumes"]]
            found |= {f"volume {source}": {"at": target} for source, _, target in mounts if "$" not in source}
            found |= {f"folder {target}": {} for source, _, target in mounts if "$" in source}
    return dict(sorted(found.items()))
