"""Whether a grammar can end, and whether a scheduler can follow it: judged on the form that xgrammar makes of it.

Every spelling (JSON schema, EBNF, regular expression, structural tag) becomes the same rules there, so one judgement
serves for all. Two kinds are refused:

* No finite text fits: the root refers to itself without an end. Decode would find no token, and prefill none to send.
* One text fits in ever more ways: a repetition whose rounds can be told apart in more than one way (`(a*)*`), a rule
  that refers to itself at both ends. The matcher follows each way, in the scheduler, for each token; such a request
  takes seconds a token after a few dozen characters, and everyone waits.

The second is decided by one character of look-ahead: what may begin a round must not be what may continue one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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
    children_first,
    cycles,
    parts,
    references,
)


@dataclass(frozen=True, slots=True)
class Facts:
    """Of an expression: sets of characters are bits, 128 for ASCII and one for the rest."""

    empty: bool = False  # the empty text fits
    finite: bool = False  # some finite text fits
    first: int = 0  # what a text may begin with
    more: int = 0  # what may continue a text that already fits
    last: int = 0  # what a text may end with


LONGEST_BEGIN = 64  # bytes: no two choices that only part beyond it are told apart
NOTHING = Facts()
OPAQUE = Facts(finite=True)  # single tokens and the like, which are not nested at will


def problem(grammar: Grammar) -> str | None:
    """Why a grammar cannot be served, or None."""
    inside = [parts(grammar, body) for body in grammar.bodies]  # expressions of each rule, children first
    used = [sorted({n for i in parts for n in references(grammar.nodes[i])}) for parts in inside]
    order = children_first(used, (grammar.root,))
    rules, facts = _facts(grammar, inside, order)
    if not rules[grammar.root].finite:
        return "no finite text fits: it refers to itself without an end, or asks for what cannot be"
    knot = cycles(used)
    for rule in sorted(order):
        if reason := _ambiguous(grammar, rule, inside[rule], rules, facts, knot):
            return reason
    return _both_ends(grammar, inside, rules, facts)


def _facts(grammar: Grammar, inside: list[list[int]], order: list[int]) -> tuple[list[Facts], dict[int, Facts]]:
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
        return Facts(not numbers, True, bit(numbers[0]), 0, bit(numbers[-1])) if numbers else Facts(True, True)
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
        last = union(f.last for f in found)
        return Facts(
            any(f.empty for f in found), any(f.finite for f in found), union(f.first for f in found), more, last
        )
    if kind == TAGS:  # free text; what follows an opening must come to its end
        return Facts(empty=True, finite=all(rules[n].finite for n in references(node)))
    return OPAQUE


def _longer(choices: Node, nodes: tuple[Node, ...], facts: dict[int, Facts]) -> int:
    """What continues a choice that is the begin of another one: `a | a b`, which is how `+` is written."""
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
    return Facts(least == 0 or body.empty, least == 0 or body.finite, body.first, body.more | again, body.last)


def in_a_row(parts: list[Facts]) -> Facts:
    """Facts of one after the other, from the last to the first.

    A part may take what was meant for the parts after it, `.*` the `a` of `.*a`: then the text goes on where it seemed
    to end.
    """
    found = Facts(empty=True, finite=True)
    for part in reversed(parts):
        taken = part.more if part.more & found.first and part.more & found.last else 0
        found = Facts(
            empty=part.empty and found.empty,
            finite=part.finite and found.finite,
            first=part.first | (found.first if part.empty else 0),
            more=found.more | taken | ((part.more | found.first) if found.empty else 0),
            last=found.last | (part.last if found.empty else 0),
        )
    return found


def _ambiguous(grammar: Grammar, rule: int, parts: list[int], rules: list[Facts], facts: dict[int, Facts],
               knot: list[int]) -> str | None:  # fmt: skip
    for index in parts:
        node = grammar.nodes[index]
        if node.kind == REPEAT and node.numbers[2] not in (0, 1) and _unclear(rules[node.numbers[0]]):
            return _words(grammar.names[node.numbers[0]])
        if node.kind == SEQUENCE and _unclear_sequence(grammar, rule, node, facts, knot):
            return _words(grammar.names[rule])
    return None


def _unclear(body: Facts) -> bool:
    """Rounds of this body run into each other."""
    return body.empty or bool(body.first & body.more)


def _unclear_sequence(grammar: Grammar, rule: int, node: Node, facts: dict[int, Facts], knot: list[int]) -> bool:
    """A round of a rule that ends in itself, or a part of a recursion that runs into what follows it."""
    parts = [facts[n] for n in node.numbers]
    own = [i for i, n in enumerate(node.numbers) if _refers(grammar.nodes[n], knot, knot[rule])]
    for place in own:
        last = place == len(parts) - 1
        if last and len(parts) > 1 and len(own) == 1:
            return _unclear(in_a_row(parts[:-1])) and grammar.nodes[node.numbers[place]].numbers[0] == rule
        if not last and parts[place].more & in_a_row(parts[place + 1 :]).first:
            return True
    return False


def _refers(node: Node, knot: list[int], wanted: int) -> bool:
    return wanted >= 0 and node.kind == REFERENCE and knot[node.numbers[0]] == wanted


def _words(name: str) -> str:
    return (
        f"a repetition in it can match the same text in more than one way (rule {name[:60]!r}), expected one way: let "
        "each round begin with what cannot continue the round before it, as in (,a*)* for (a*)*"
    )


def _both_ends(grammar: Grammar, inside: list[list[int]], rules: list[Facts], facts: dict[int, Facts]) -> str | None:
    """A rule that begins with itself, and ends with itself: `a a`, `a "+" a`. A mere alias of itself is harmless."""
    count = len(grammar.bodies)
    left: list[set[int]] = [set() for _ in range(count)]
    right: list[set[int]] = [set() for _ in range(count)]
    strict: tuple[set[tuple[int, int]], set[tuple[int, int]]] = (set(), set())
    for rule in range(count):
        for index in inside[rule]:
            for before, target, after in _neighbours(grammar.nodes[index], grammar, facts):
                left[rule] |= {target} if before else set()
                right[rule] |= {target} if after else set()
                if before != after:
                    strict[0 if before else 1].add((rule, target))
    begins, ends = (_in_cycles(*each) for each in zip((left, right), strict, strict=True))
    if both := sorted(rule for rule in begins & ends if rules[rule].finite):
        return (
            f"rule {grammar.names[both[0]][:60]!r} refers to itself at both of its ends, so that one text fits in many "
            "ways, expected a repetition or a reference at one end"
        )
    return None


def _in_cycles(graph: list[set[int]], strict: set[tuple[int, int]]) -> set[int]:
    """Nodes of those cycles that hold at least one of the given edges."""
    knot = cycles([sorted(edges) for edges in graph])
    wanted = {knot[a] for a, b in strict if knot[a] >= 0 and knot[a] == knot[b]}
    return {node for node, number in enumerate(knot) if number in wanted}


def _neighbours(node: Node, grammar: Grammar, facts: dict[int, Facts]) -> Iterator[tuple[bool, int, bool]]:
    """Rules in an expression, each with whether it may be the first and the last of it."""
    row = node.numbers if node.kind == SEQUENCE else ()
    if node.kind == CHOICES:
        row = ()
        for index in node.numbers:
            yield from ((True, target, True) for target in references(grammar.nodes[index]))
    for place, index in enumerate(row):
        before = all(facts[n].empty for n in row[:place])
        after = all(facts[n].empty for n in row[place + 1 :])
        yield from ((before, target, after) for target in references(grammar.nodes[index]))
