"""Prometheus text: read, relabel and join what several programs expose, each metric family in one piece.

Works on lines, because the guard renders this often and in little memory: values and label values pass through as
they are, byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


@dataclass(slots=True)
class Family:
    """One metric: its kind, its help text and its sample lines."""

    name: str
    kind: str = "untyped"
    help: str = ""
    lines: list[str] = field(default_factory=list)

    def text(self) -> list[str]:
        """The family's lines, help and type first."""
        head = [f"# HELP {self.name} {self.help}"] if self.help else []
        return [*head, f"# TYPE {self.name} {self.kind}", *self.lines]


@dataclass(frozen=True, slots=True)
class Sample:
    """One value with its labels."""

    name: str
    labels: Mapping[str, str]
    value: float


def parse(text: str) -> dict[str, Family]:
    """Families by name, in their order. A sample belongs to the family announced last, when its name begins like it.

    >>> [f.lines for f in parse('# TYPE a_total counter\\na_total{x="1"} 2').values()]
    [['a_total{x="1"} 2']]
    """
    found: dict[str, Family] = {}
    current: Family | None = None
    for line in text.splitlines():
        if line.startswith(("# HELP ", "# TYPE ")):
            _, what, name, rest = [*line.split(" ", 3), ""][:4]
            current = found.setdefault(name, Family(name))
            if what == "TYPE":
                current.kind = rest.strip()
            else:
                current.help = rest
        elif line.strip() and not line.startswith("#"):
            name = re.split(r"[{\s]", line, maxsplit=1)[0]
            if current is None or not name.startswith(current.name):
                current = found.setdefault(name, Family(name))
            current.lines.append(line)
    return found


def with_label(line: str, name: str, value: str) -> str:
    """The sample line with one more label, unless it has it already.

    >>> with_label("up 1", "role", "prefill")
    'up{role="prefill"} 1'
    >>> with_label('up{a="b"} 1', "role", "prefill")
    'up{role="prefill",a="b"} 1'
    """
    match = re.match(r"[^{\s]+", line)
    if match is None or re.search(rf'[{{,]{name}="', line):
        return line
    pair, rest = f'{name}="{value.translate(_ESCAPES)}"', line[match.end() :]
    if not rest.startswith("{"):
        return f"{match[0]}{{{pair}}}{rest}"
    comma = "" if rest.startswith("{}") else ","
    return f"{match[0]}{{{pair}{comma}{rest[1:]}"


def join(texts: Mapping[str, str], roles: Mapping[str, str] | None = None) -> dict[str, Family]:
    """The families of several programs in one, each sample labelled with its program's role and name. `roles`: name ->
    role, where they differ.
    """
    joined: dict[str, Family] = {}
    for name, text in texts.items():
        role = (roles or {}).get(name, name)
        for family in parse(text).values():
            whole = joined.setdefault(family.name, Family(family.name, family.kind, family.help))
            whole.lines += [with_label(with_label(line, "member", name), "role", role) for line in family.lines]
    return joined


def render(families: Iterable[Family]) -> str:
    """The exposition text; families without samples are left out."""
    return "".join("\n".join(family.text()) + "\n" for family in families if family.lines)


def samples(text: str) -> list[Sample]:
    """Every sample with its labels, for those who calculate.

    >>> samples('a{x="1",y="2"} 3')[0].labels["y"]
    '2'
    """
    found = []
    for line in text.splitlines():
        match = None if line.startswith("#") else _SAMPLE.match(line)
        if match:
            found.append(Sample(match[1], dict(_LABEL.findall(match[2] or "")), float(match[3])))
    return found


def gauge(name: str, text: str, values: Iterable[tuple[Mapping[str, str], float]], kind: str = "gauge") -> Family:
    """A family of our own."""
    lines = []
    for labels, value in values:
        inner = ",".join(f'{key}="{str(said).translate(_ESCAPES)}"' for key, said in labels.items())
        lines.append(f"{name}{{{inner}}} {value:.12g}" if inner else f"{name} {value:.12g}")
    return Family(name, kind, text, lines)
