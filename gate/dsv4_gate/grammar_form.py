"""The rules that xgrammar makes of every spelling of a grammar, read from its JSON, and walks over them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

BYTES, CLASS, STAR, EMPTY, REFERENCE, SEQUENCE, CHOICES, TAGS, REPEAT = range(9)  # xgrammar 0.2.7, "v16"
VERSION = "v16"


class FormChanged(Exception):
    """xgrammar writes its grammars in another form than the one that is read here."""


class Node(NamedTuple):
    """One expression: its kind and its numbers, which are characters, or indices of expressions or rules."""

    kind: int
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Grammar:
    nodes: tuple[Node, ...]
    names: tuple[str, ...]
    bodies: tuple[int, ...]  # of each rule: its expression
    root: int


def read(text: str) -> Grammar:
    """From `Grammar.serialize_json()`."""
    data = json.loads(text)
    if data.get("__VERSION__") != VERSION:
        raise FormChanged(f"xgrammar's grammars have version {data.get('__VERSION__')!r}, expected {VERSION!r}")
    flat, starts = data["grammar_expr_data"], data["grammar_expr_indptr"]
    ends = [*starts[1:], len(flat)]
    nodes = tuple(Node(flat[a], tuple(flat[a + 2 : b])) for a, b in zip(starts, ends, strict=True))
    rules = data["rules"]
    names, bodies = tuple(rule[0] for rule in rules), tuple(rule[1] for rule in rules)
    return Grammar(nodes, names, bodies, data["root_rule_id"])


def parts(grammar: Grammar, body: int) -> list[int]:
    """Expressions of a rule's body, each after those that it consists of."""
    found, rest = set(), [body]
    while rest:
        index = rest.pop()
        if index not in found:
            found.add(index)
            node = grammar.nodes[index]
            rest += node.numbers if node.kind in (SEQUENCE, CHOICES) else ()
    return sorted(found)  # an expression is written after what it consists of


def references(node: Node) -> Iterable[int]:
    """Rules that an expression names."""
    if node.kind == TAGS:  # pairs of an opening and a rule, then two numbers about the text around them
        return node.numbers[1:-2:2]
    return node.numbers[:1] if node.kind in (REFERENCE, REPEAT) else ()


def children_first(used: list[list[int]], roots: Iterable[int]) -> list[int]:
    """Everything that the roots reach, in an order in which most come after those that they use."""
    order: list[int] = []
    seen: set[int] = set()
    for root in roots:
        path = [] if root in seen else [(root, iter(used[root]))]
        seen.add(root)
        while path:
            node, rest = path[-1]
            if (step := next((n for n in rest if n not in seen), None)) is None:
                order.append(node)
                path.pop()
            else:
                seen.add(step)
                path.append((step, iter(used[step])))
    return order


def cycles(edges: list[list[int]]) -> list[int]:
    """For each node a number that it shares with those it can reach and be reached from; -1 where there is no cycle."""
    order = children_first(edges, range(len(edges)))
    back: list[list[int]] = [[] for _ in edges]
    for node, targets in enumerate(edges):
        for target in targets:
            back[target].append(node)
    knot = [-1] * len(edges)
    done: set[int] = set()
    for start in reversed(order):
        group, rest = [], [start]
        while rest:
            node = rest.pop()
            if node not in done:
                done.add(node)
                group.append(node)
                rest += [n for n in back[node] if n not in done]
        if len(group) > 1 or (group and group[0] in edges[group[0]]):
            for node in group:
                knot[node] = start
    return knot
