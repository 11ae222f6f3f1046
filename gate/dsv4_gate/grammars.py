"""What a request may ask of the grammar engine: bounds on its text, and on what the text means.

All of it is decided by the request alone, with no clock, so that both servers of a pair come to the same answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dsv4_gate.answers import plain_words
from dsv4_gate.grammar_form import (
    BYTES,
    CHOICES,
    CLASS,
    REFERENCE,
    REPEAT,
    SEQUENCE,
    STAR,
    Grammar,
    Node,
    children_first,
    parts,
    read,
    references,
)
from dsv4_gate.languages import problem

FIELDS = {"json_schema": "json", "regex": "regex", "ebnf": "ebnf", "structural_tag": "structural_tag"}
ANY = "$$ANY$$"  # the engine's own word for any JSON
MOST_TEXT = 1 << 17  # bytes of one grammar
MOST_DEPTH = 100  # levels of JSON in a schema: xgrammar's time grows with their cube, a tenth of a second here
MOST_FORM = 1 << 19  # characters of what xgrammar makes of it: some seconds of compiling for 128,000 tokens
MOST_STATES = 1000  # of all patterns in a schema, repetitions written out: their square is seconds
OPEN_END = ("$dynamicRef", "$recursiveRef")  # xgrammar reads over these and would let anything pass
CHOSEN = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")  # maps of a client's names
DATA = ("const", "enum", "default", "examples")  # values in a schema, no schemas


@dataclass(frozen=True, slots=True)
class Judge:
    """`form` is xgrammar's own (kind, text) -> its JSON; it raises ValueError where the text is no grammar."""

    form: Callable[[str, str], str]

    def refusal(self, parameters: dict[str, Any]) -> str | None:
        """Why the grammar of these sampling parameters is refused, naming its field, or None."""
        for field, kind in FIELDS.items():
            text = parameters.get(field)
            if text is None or text in ("", ANY):
                continue
            if not isinstance(text, str):
                return f"{field} is a {type(text).__name__}, expected a string"
            if reason := self._judged(kind, text):
                return f"{field}: {reason}"
        return None

    def _judged(self, kind: str, text: str) -> str | None:
        return _verdict(self.form, kind, text)


@lru_cache(maxsize=256)  # an agent sends the same schema with each request
def _verdict(form: Callable[[str, str], str], kind: str, text: str) -> str | None:
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MOST_TEXT:
        return f"it has {size} bytes, expected at most {MOST_TEXT}"
    try:
        if kind in ("json", "structural_tag") and (reason := _schema_problem(form, text)):
            return reason
        return _form_problem(form(kind, text))
    except ValueError as error:
        return f"failed to compile: {plain_words(str(error))}"


def _form_problem(form: str) -> str | None:
    if len(form) > MOST_FORM:
        return f"it becomes {len(form)} characters of grammar rules, expected at most {MOST_FORM}: ask for less at once"
    return problem(read(form))


def _schema_problem(form: Callable[[str, str], str], text: str) -> str | None:
    """What must be known of a schema before xgrammar reads it."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        return f"it is no JSON: {error}"
    states = 0
    for depth, name, value in walk(data):
        if depth > MOST_DEPTH:
            return f"it is more than {MOST_DEPTH} levels deep"
        if name in OPEN_END:
            return f"{name} is not served, use $ref"
        if name == "$ref" and isinstance(value, str) and not (value == "#" or value.startswith("#/")):
            return "a $ref leads out of the schema, expected '#' or '#/...'"
        for pattern in patterns(name, value):
            rules = read(form("regex", pattern))
            states += steps(rules)
            if states > MOST_STATES:
                return f"its patterns have more than {MOST_STATES} steps with their repetitions written out"
            if reason := problem(rules):
                return f"pattern: {reason}"
    return None


def walk(data: Any) -> Iterator[tuple[int, str, Any]]:
    """Every keyword of every schema in it with its depth and value; names that a client chose come as ""."""
    rest = [(1, data, False)]
    while rest:
        depth, value, chosen = rest.pop()
        if isinstance(value, dict):
            for name, item in value.items():
                yield depth, "" if chosen else name, item
                if chosen or name not in DATA:
                    rest.append((depth + 1, item, not chosen and name in CHOSEN))
        elif isinstance(value, list):
            yield depth, "", value
            rest += [(depth + 1, item, False) for item in value]


def patterns(name: str, value: Any) -> Iterator[str]:
    """Regular expressions that a member of a schema brings.

    >>> list(patterns("pattern", "a+")), list(patterns("patternProperties", {"^b": {}})), list(patterns("type", "a"))
    (['a+'], ['^b'], [])
    """
    if name == "pattern" and isinstance(value, str):
        yield value
    if name == "patternProperties" and isinstance(value, dict):
        yield from value


def steps(grammar: Grammar) -> int:
    """Steps of a grammar, each repetition written out; a loop counts once."""
    inside = [parts(grammar, body) for body in grammar.bodies]
    used = [[n for i in each for n in references(grammar.nodes[i])] for each in inside]
    rules: dict[int, int] = {}
    nodes: dict[int, int] = {}
    for rule in children_first(used, (grammar.root,)):
        for index in inside[rule]:
            nodes[index] = _steps(grammar.nodes[index], nodes, rules)
        rules[rule] = nodes[grammar.bodies[rule]]
    return rules[grammar.root]


def _steps(node: Node, nodes: dict[int, int], rules: dict[int, int]) -> int:
    if node.kind == BYTES:
        return len(node.numbers)
    if node.kind in (CLASS, STAR):  # beyond ASCII a character is up to four bytes, and a negated class reaches there
        return 3 if node.numbers[0] or max(node.numbers[2::2], default=0) > 127 else 1
    if node.kind in (SEQUENCE, CHOICES):
        return sum(nodes[part] for part in node.numbers)
    if node.kind == REFERENCE:
        return rules.get(node.numbers[0], 1)
    if node.kind == REPEAT:
        rule, least, most = node.numbers
        return max(1, least, most) * rules.get(rule, 1)
    return 1
