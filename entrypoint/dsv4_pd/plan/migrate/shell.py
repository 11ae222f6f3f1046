"""Simple shell text: assignments, `export`, `source`, one command after the other. What is more is said, not guessed.

Units often run `bash -c '…'` or a script of a few lines. Loops, conditions and substitutions are not followed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

SHELLS = ("sh", "bash", "dash", "zsh")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)(?::?-([^}]*))?\})")
_KEYWORDS = frozenset(
    ["if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "function", "{", "}",
     "[", "[[", "!", "select", "eval"]
)  # fmt: skip
_HARMLESS = frozenset(
    ["set", "ulimit", "umask", "echo", "mkdir", "sleep", "true", ":", "trap", "wait", "printf", "date", "cd"]
)
_DEEPEST = 4


@dataclass
class Script:
    """What a text does: variables, commands as words, and what was not followed."""

    variables: dict[str, str] = field(default_factory=dict)
    commands: list[list[str]] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)  # the first word of each, which is no secret
    sources: dict[str, str] = field(default_factory=dict)  # variable -> the file that sets it


def read(text: str, variables: dict[str, str], root: Path, origin: str = "", depth: int = 0) -> Script:
    """Follow a text; `variables` are those that it finds."""
    script = Script(dict(variables))
    for words in _simple_commands(text):
        _follow(words, script, root, origin, depth)
    return script


def _follow(words: list[str], script: Script, root: Path, origin: str, depth: int) -> None:
    words = _without_redirections(words)
    while words and (found := _ASSIGNMENT.fullmatch(words[0])):
        script.variables[found[1]] = _expanded(found[2], script)
        script.sources[found[1]] = origin
        words = words[1:]
    if not words:
        return
    name = words[0]
    if name in ("export", "declare", "typeset", "readonly"):
        _follow([word for word in words[1:] if "=" in word and not word.startswith("-")], script, root, origin, depth)
    elif name in ("source", ".") and len(words) > 1 and depth < _DEEPEST:
        _source(_expanded(words[1], script), script, root, depth)
    elif name in _KEYWORDS or name.endswith("()") or "$(" in " ".join(words) or "`" in " ".join(words):
        script.skipped.append(name)
    elif name not in _HARMLESS:
        script.commands.append([_expanded(word, script) for word in words])


def _source(name: str, script: Script, root: Path, depth: int) -> None:
    try:
        text = (root / name.lstrip("/")).read_text(encoding="utf-8", errors="replace")
    except OSError:
        script.skipped.append(f"source {name}")
        return
    inner = read(text, script.variables, root, name, depth + 1)
    script.variables |= inner.variables
    script.commands += inner.commands
    script.skipped += inner.skipped
    script.sources |= inner.sources


def _expanded(word: str, script: Script) -> str:
    return _VARIABLE.sub(lambda m: script.variables.get(m[1] or m[2]) or (m[3] or ""), word)


def _simple_commands(text: str) -> Iterator[list[str]]:
    """Words of each command; the operators between them end one."""
    joined = re.sub(r"\\\n", " ", text)
    lexer = shlex.shlex(joined, posix=True, punctuation_chars=";&|\n<>")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, "#"
    command: list[str] = []
    try:
        for word in lexer:
            if word.strip(";&|\n") == "" and word:
                if command:
                    yield command
                command = []
            else:
                command.append(word)
    except ValueError:  # an open quote
        yield ["if"]
    if command:
        yield command


def _without_redirections(words: list[str]) -> list[str]:
    kept: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word and not word.strip("<>&|"):
            skip = True
            if kept and kept[-1] in ("1", "2"):
                kept.pop()
        else:
            kept.append(word)
    return kept
