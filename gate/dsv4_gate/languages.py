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

from dsv4_gate.facts import Facts, facts_of, in_a_row
from dsv4_gate.grammar_form import (
    CHOICES,
    REFERENCE,
    REPEAT,
    SEQUENCE,
    Grammar,
    Node,
    children_first,
    cycles,
    parts,
    references,
)


def problem(grammar: Grammar) -> str | None:
    """Why a grammar cannot be served, or None."""
    inside = [parts(grammar, body) for body in grammar.bodies]  # expressions of each rule, children first
    used = [sorted({n for i in parts for n in references(grammar.nodes[i])}) for parts in inside]
    order = children_first(used, (grammar.root,))
    rules, facts = facts_of(grammar, inside, order)
    if not rules[grammar.root].finite:
        return "no finite text fits: it refers to itself without an end, or asks for what cannot be"
    knot = cycles(used)
    for rule in sorted(order):
        if reason := _ambiguous(grammar, rule, inside[rule], rules, facts, knot):
            return reason
    return _both_ends(grammar, inside, rules, facts)


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
