"""docs/clients.md from what was seen, and from the scripts themselves: what a person pastes is what ran."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from clients.running import SCRIPTS

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
RECORD, LIMITS, LOCKS, PAGE = HERE / "record.json", HERE / "limits.toml", HERE / "locks", ROOT / "docs/clients.md"
Record = Mapping[str, Mapping[str, Any]]  # client -> version, cases
Limits = Mapping[str, Mapping[str, str]]  # client -> case -> what to know
_PASTE = re.compile(r"^(?:#|//) paste ?(?P<where>[^\n]*)\n(?P<lines>.*?)^(?:#|//) end$", re.MULTILINE | re.DOTALL)
_TEXT = re.compile(r"= f?(?:\"\"\"|`)\n(?P<text>.*?)^(?:\"\"\"|`);?$", re.MULTILINE | re.DOTALL)
# What a reader puts in. The product's own context is named, and not the run's.
HOST, THEIRS, NAME, TOKENS = "http://HOST:8000", "YOUR KEY", "flash-0731", "524288"

HEAD = """# Clients

Written by `make test-clients ARGS=--write`: each client was installed from its package index in the version named, and
run against the demo: the real servers, the default router and front, one key, and the demo's model with more positions,
because what some clients say before the question is longer than the demo's own context. What you paste is what ran,
with your host, key and model in place of the demo's. Where a client asks for a base URL, OpenAI's take the address with
`/v1`, Anthropic's without. [api.md](api.md) has the API field by field, [keys.md](keys.md) keys, HTTPS and pages in a
browser.

| client | version | tried | limits |
|---|---|---|---|
"""


class Block(NamedTuple):
    """What a person pastes: `where` says into which file, and is empty for a program of theirs."""

    where: str
    kind: str
    lines: str


def unexplained(found: Record, limits: Limits) -> list[str]:
    """What went wrong and is no limit that is named; and limits of these clients that no longer are."""
    wrong = []
    for name, one in found.items():
        named = limits.get(name, {})
        for case, problem in one["cases"].items():
            if problem is not None and case not in named:
                wrong.append(f"{name}: {case}: {problem}")
            if problem is None and case in named:
                wrong.append(f"{name}: {case}: works, and limits.toml says that it does not")
        wrong += [f"{name}: {case}: in limits.toml, and not tried" for case in named if case not in one["cases"]]
    return wrong


def limits() -> Limits:
    """What limits.toml names."""
    found: dict[str, dict[str, str]] = tomllib.loads(LIMITS.read_text(encoding="utf-8"))
    return found


def store(found: Record) -> None:
    """Record these clients beside those of other runs, and rewrite the page."""
    before: Record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    record = {name: one for name, one in sorted({**before, **found}.items()) if name in SCRIPTS}
    RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(render(record, limits()), encoding="utf-8")


def render(found: Record, limits: Limits) -> str:
    """The page. A client of which no run is recorded says so."""
    names = sorted(SCRIPTS, key=lambda name: title(name).lower())
    rows = [
        f"| [{title(name)}](#{anchor(title(name))}) | {found[name]['version']} | {len(found[name]['cases'])} "
        f"| {len(limits.get(name, {})) or '–'} |\n"
        if name in found
        else f"| [{title(name)}](#{anchor(title(name))}) | – | no run is recorded | – |\n"
        for name in names
    ]
    return HEAD + "".join(rows) + "".join(_part(name, found.get(name), limits.get(name, {})) for name in names)


def title(name: str) -> str:
    """The first words of a script."""
    return _first(name).split(":")[0]


def anchor(words: str) -> str:
    """A heading's link."""
    return re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")


def install(name: str) -> str:
    """The command that a person gives; what is installed is what the locks were made from."""
    if name.endswith("_npm"):
        wanted = json.loads((LOCKS / name / "package.json").read_text(encoding="utf-8"))["dependencies"]
        return "npm install " + " ".join(sorted(wanted))
    lines = (LOCKS / f"{name}.in").read_text(encoding="utf-8").splitlines()
    wanted = [line for line in lines if line and not line.startswith("#")]
    return "pip install " + " ".join(f'"{line}"' if "[" in line else line for line in wanted)


def block(name: str) -> Block:
    """What stands between `paste` and `end`, with what a reader puts in."""
    script = SCRIPTS[name]
    found = _PASTE.search(script.read_text(encoding="utf-8"))
    assert found is not None, name
    where, lines = found["where"].strip(), found["lines"]
    if not where:
        return Block("", {".py": "python", ".mjs": "js"}[script.suffix], _in_code(lines))
    text = _TEXT.search(lines)
    assert text is not None, name
    kind = "sh" if where == "sh" else re.search(r"\.(\w+)", where.removeprefix("as ~/."))[1]  # type: ignore[index]
    return Block("" if where == "sh" else where.removeprefix("as "), kind, _in_text(text["text"]))


def _in_code(lines: str) -> str:
    for old, new in (("BASE", HOST), ("KEY", THEIRS), ("MODEL", NAME)):
        lines = re.sub(rf"\b{old}\b", f'"{new}"', lines)
    lines = re.sub(r"\bCONTEXT\b", TOKENS, lines).replace("  # fmt: skip", "")
    return re.sub(r'"([^"\n]*)" \+ "([^"\n]*)"', r'"\1\2"', lines).strip("\n")


def _in_text(lines: str) -> str:
    for old, new in (("BASE", HOST), ("KEY", THEIRS), ("MODEL", NAME)):
        lines = re.sub(rf"\$?\{{{old}\}}", new, lines)
    return lines.strip("\n")


def _part(name: str, one: Mapping[str, Any] | None, named: Mapping[str, str]) -> str:
    about, pasted = _first(name).partition(": ")[2], block(name)
    where = f"As {pasted.where}:\n\n" if pasted.where else ""
    tried = f"Tried with {one['version']}." if one else "No run is recorded yet."
    return (
        f"\n## {title(name)}\n\n{about[:1].upper()}{about[1:]}. {tried}\n\n"
        f"```sh\n{install(name)}\n```\n\n{where}```{pasted.kind}\n{pasted.lines}\n```\n{_table(one, named)}"
    )


def _table(one: Mapping[str, Any] | None, named: Mapping[str, str]) -> str:
    if one is None:
        return ""
    rows = (f"| {case} | {named.get(case, 'works').replace('|', chr(92) + '|')} |\n" for case in one["cases"])
    return "\n| tried | |\n|---|---|\n" + "".join(rows)


def _first(name: str) -> str:
    line = SCRIPTS[name].read_text(encoding="utf-8").splitlines()[0]
    return line.strip('"/ ').rstrip(".")
