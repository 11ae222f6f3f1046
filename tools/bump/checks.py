"""Each need of ours against the engine's sources: one finding a subject."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from dsv4_hooks.table import Hook

from bump import lines, source
from bump.source import Function, Sources

_SUFFIXES = ("_total", "_count", "_sum", "_bucket")  # added by the Prometheus client


class Fit(Enum):
    """gone: it would break · changed: read it again · outside: not the engine's, so not looked for · fits."""

    GONE = "gone"
    CHANGED = "changed"
    OUTSIDE = "outside"
    FITS = "fits"


@dataclass(frozen=True, slots=True)
class Difference:
    """area: a heading of the report · subject: what was looked for · note: what was found, or why it matters."""

    area: str
    subject: str
    verdict: Fit
    note: str = ""


def _there(area: str, subject: str, there: bool, note: str = "") -> Difference:
    return Difference(area, subject, Fit.FITS if there else Fit.GONE, note)


def hooks(tables: Iterable[Hook], engine: Sources) -> Iterator[Difference]:
    """The target is a function with exactly the parameters of the table."""
    for hook in tables:
        node = engine.find(hook.target)
        if not isinstance(node, Function):
            yield Difference("hooks", hook.target, Fit.GONE, "no such function")
            continue
        found = source.parameters(node)
        yield _there(
            "hooks", hook.target, found == hook.parameters, "" if found == hook.parameters else
            f"takes {', '.join(found)}; expected {', '.join(hook.parameters)}",
        )  # fmt: skip


def imports(paths: Mapping[str, str], engine: Sources) -> Iterator[Difference]:
    """Every name that our code imports from the engine, and for which file."""
    for path, file in sorted(paths.items()):
        yield _there("imports", path, engine.find(path) is not None, f"needed by {file}")


def fields(owner: str, names: Iterable[str], engine: Sources) -> Iterator[Difference]:
    """Fields of the engine's request that the gate's rules read."""
    node = engine.find(owner)
    found = source.fields(node) if node else set()
    for name in sorted(names):
        yield _there("request fields", f"{owner}.{name}", name in found)


def flags(area: str, wanted: Iterable[str], declared: set[str], deprecated: Iterable[str] = ()) -> Iterator[Difference]:
    """Flags by name; argparse's unique prefixes count, as they do for a person."""
    for flag in sorted(wanted):
        if flag in set(deprecated):
            yield Difference(area, flag, Fit.CHANGED, "deprecated")
        else:
            prefixed = sorted(name for name in declared if name.startswith(flag))
            note = f"as a prefix of {', '.join(prefixed[:3])}" if flag not in declared and prefixed else ""
            yield _there(area, flag, bool(prefixed), note)


def choices(values: Mapping[str, Iterable[str]], engine: Sources) -> Iterator[Difference]:
    """Words that we pass where the engine has a list of its own."""
    for flag, words in sorted(values.items()):
        for word in sorted(words):
            yield _there("values of flags", f"{flag} {word}", word in engine.texts)


def log_lines(
    entries: Iterable[Mapping[str, Any]], outside: Mapping[str, str], engine: Sources
) -> Iterator[Difference]:
    """Signatures: a text, or each alternative of a regular expression."""
    for entry in entries:
        alternatives = lines.pieces_of_regex(entry["regex"]) if "regex" in entry else [(entry["text"],)]
        for pieces in alternatives:
            subject = " … ".join(pieces)
            writers = [_writer(piece, outside) for piece in pieces]
            if writers[0]:
                yield Difference("log lines", subject, Fit.OUTSIDE, writers[0])
            else:
                own = tuple(piece for piece, writer in zip(pieces, writers, strict=True) if not writer)
                yield _there("log lines", subject, lines.is_written(own, engine.texts))


def _writer(piece: str, outside: Mapping[str, str]) -> str:
    """Who writes it, where that is not the engine."""
    return next((who for start, who in outside.items() if piece.startswith(start)), "")


def messages(patterns: Iterable[re.Pattern[str]], engine: Sources) -> Iterator[Difference]:
    """The engine's exceptions that the gate rewords."""
    for pattern in patterns:
        for pieces in lines.pieces_of_regex(pattern.pattern):
            ignore_case = bool(pattern.flags & re.IGNORECASE)
            texts = [text.lower() for text in engine.texts] if ignore_case else engine.texts
            asked = tuple(piece.lower() for piece in pieces) if ignore_case else pieces
            # a pattern may span an exception's name and its text, which the engine writes in two places
            written = all(lines.is_written((piece,), texts) or _is_class(piece, engine) for piece in asked)
            yield _there("messages reworded", " … ".join(pieces), written)


def _is_class(name: str, engine: Sources) -> bool:
    return engine.find(f"sglang.srt.disaggregation.utils.{name}") is not None


def metrics(names: Iterable[str], engine: Sources) -> Iterator[Difference]:
    """Metric names, without what the client library appends."""
    for name in sorted(names):
        bare = [name, *(name.removesuffix(suffix) for suffix in _SUFFIXES if name.endswith(suffix))]
        yield _there("metrics", name, any(one in engine.texts for one in bare))


def variables(names: Iterable[str], engine: Sources) -> Iterator[Difference]:
    """Environment variables: in the engine's register, or read by name."""
    for name in sorted(names):
        registered = engine.find(f"sglang.srt.environ.Envs.{name}") is not None
        yield _there("environment", name, registered or name in engine.texts)


def watched(entries: Iterable[Mapping[str, str]], pinned: Mapping[str, str], engine: Sources) -> Iterator[Difference]:
    """Code that ours repeats: there, and the same as in the engine that we pin."""
    for entry in entries:
        name, why = entry["name"], entry["why"]
        node = engine.find(name)
        if node is None:
            yield Difference("code that ours repeats", name, Fit.GONE, why)
        else:
            same = source.digest(node) == pinned.get(name)
            yield Difference("code that ours repeats", name, Fit.FITS if same else Fit.CHANGED, why)


def digests(names: Iterable[str], engine: Sources) -> dict[str, str]:
    """For pinned.json; what is not there is an error, since the pinned engine has it all."""
    found: dict[str, ast.AST | None] = {name: engine.find(name) for name in sorted(names)}
    if missing := [name for name, node in found.items() if node is None]:
        raise LookupError(f"{', '.join(missing)}: not in {engine.root}; correct watched.toml first")
    return {name: source.digest(node) for name, node in found.items() if node is not None}
