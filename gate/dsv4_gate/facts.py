"""What can be said of each expression of a grammar without writing out its texts."""

from __future__ import annotations

from typing import NamedTuple

from dsv4_gate.characters import bit, of_class, union
from dsv4_gate.grammar_form import (
    BYTES,
    CHOICES,
    CLASS,
    EMPTY,
    REFERENCE,
    REPEAT,
    SEQUENCE,
    STAR,
    TAGS,
    Grammar,
    Node,
    references,
)


class Facts(NamedTuple):
    """Of an expression: sets of characters are bits, 128 for ASCII and one for the rest."""

    empty: bool = False  # the empty text fits
    finite: bool = False  # some finite text fits
    first: int = 0  # what a text may begin with
    more: int = 0  # what may continue a text that already fits
    last: int = 0  # what a text may end with
    must: int = 0  # what each text holds


LONGEST_BEGIN = 64  # bytes: no two choices that only part beyond it are told apart
NOTHING = Facts()
OPAQUE = Facts(finite=True)  # single tokens and the like, which are not nested at will


def facts_of(grammar: Grammar, inside: list[list[int]], order: list[int]) -> tuple[list[Facts], dict[int, Facts]]:
    """The least facts that agree with each other, of rules and of expressions."""
    rules, facts = [NOTHING] * len(grammar.bodies), dict.fromkeys(range(len(grammar.nodes)), NOTHING)
    changed = True
    while changed:
        changed = False
        for rule in order:
            for index in inside[rule]:
                facts[index] = _fact(grammar.nodes[index], grammar.nodes, rules, facts)
            if (found := facts[grammar.bodies[rule]]) != rules[rule]:
                rules[rule], changed = found, True
    return rules, facts


def _fact(node: Node, nodes: tuple[Node, ...], rules: list[Facts], facts: dict[int, Facts]) -> Facts:
    kind, numbers = node.kind, node.numbers
    if kind == BYTES:
        return _fact_of_text(numbers)
    if kind in (CLASS, STAR):
        signs = of_class(numbers)
        return Facts(kind == STAR, kind == STAR or signs != 0, signs, signs if kind == STAR else 0, signs)
    if kind == EMPTY:
        return Facts(True, True)
    if kind == REFERENCE:
        return rules[numbers[0]]
    if kind == REPEAT:
        return _repeated(rules[numbers[0]], numbers[1], numbers[2])
    if kind == SEQUENCE:
        return in_a_row([facts[n] for n in numbers])
    if kind == CHOICES:
        found = [facts[n] for n in numbers]
        more = union(f.more for f in found) | _longer(node, nodes, facts)
        return _any_of(found, more)
    if kind == TAGS:  # free text; what follows an opening must come to its end
        return Facts(empty=True, finite=all(rules[n].finite for n in references(node)))
    return OPAQUE


def _fact_of_text(signs: tuple[int, ...]) -> Facts:
    if not signs:
        return Facts(True, True)
    return Facts(False, True, bit(signs[0]), 0, bit(signs[-1]), union(map(bit, signs)))


def _any_of(choices: list[Facts], more: int) -> Facts:
    must = choices[0].must if choices else 0
    for choice in choices:
        must &= choice.must
    return Facts(
        any(c.empty for c in choices),
        any(c.finite for c in choices),
        union(c.first for c in choices),
        more,
        union(c.last for c in choices),
        must,
    )


def _longer(choices: Node, nodes: tuple[Node, ...], facts: dict[int, Facts]) -> int:
    """What continues a choice that is the beginning of another one: `a | a b`, which is how `+` is written."""
    rows = [nodes[n].numbers for n in choices.numbers if nodes[n].kind == SEQUENCE]
    spelled = [tuple(nodes[n] for n in row) for row in rows]
    whole, more = set(spelled), 0
    for row, spelling in zip(rows, spelled, strict=True):
        for cut in range(1, len(spelling) if len(whole) > 1 else 0):
            if spelling[:cut] in whole:
                more |= in_a_row([facts[n] for n in row[cut:]]).first
    texts = {spelling[0].numbers for spelling in spelled if len(spelling) == 1 and spelling[0].kind == BYTES}
    for text in texts:
        more |= union(bit(text[cut]) for cut in range(1, min(len(text), LONGEST_BEGIN)) if text[:cut] in texts)
    return more


def _repeated(body: Facts, least: int, most: int) -> Facts:
    again = body.first if most != least else 0
    return Facts(
        least == 0 or body.empty,
        least == 0 or body.finite,
        body.first,
        body.more | again,
        body.last,
        body.must if least else 0,
    )


def in_a_row(parts: list[Facts]) -> Facts:
    """Facts of one after the other, from the last to the first.

    A part may take what was meant for the parts after it, `.*` the `a` of `.*a`: then the text goes on where it seemed
    to end.
    """
    found = Facts(empty=True, finite=True)
    for part in reversed(parts):
        taken = part.more if _swallows(part.more, found) else 0
        found = Facts(
            empty=part.empty and found.empty,
            finite=part.finite and found.finite,
            first=part.first | (found.first if part.empty else 0),
            more=found.more | taken | ((part.more | found.first) if found.empty else 0),
            last=found.last | (part.last if found.empty else 0),
            must=part.must | found.must,
        )
    return found


def _swallows(signs: int, rest: Facts) -> bool:
    """A loop over these characters may take a text of the rest, as far as its first, last and fixed characters tell."""
    return bool(signs & rest.first and signs & rest.last and not rest.must & ~signs)
