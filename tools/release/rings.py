"""What .ci/run said last: which rings passed, and of which commit. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TIMES = re.compile(r"^==== times, (\d+) s in all$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Rings:
    """`commit`: None where the lines don't say it. `again`: what passed at its second try, with the reason."""

    commit: str | None
    passed: tuple[str, ...]
    failed: tuple[str, ...]
    again: tuple[str, ...]
    router: str | None
    seconds: int

    def proves(self, commit: str) -> bool:
        """Whether they are this commit's own."""
        return self.commit == commit


def parse(text: str) -> Rings:
    """From the output of .ci/run, or its last lines.

    Raises:
        ValueError: there is no summary in it.
    """
    heads = list(_TIMES.finditer(text))
    if not heads or not re.search(r"^rings: \d+ passed, \d+ failed$", text[heads[-1].end() :], re.MULTILINE):
        raise ValueError("found no summary, expected the last lines of .ci/run, from `==== times` to `rings: …`")
    said = text[heads[-1].end() :]
    times = re.findall(r"^  (\S+) \d+ s(, failed)?$", said, re.MULTILINE)
    stopped = re.findall(r"^failed: (.+)$", said, re.MULTILINE)
    named = {name for name, failed in times if failed}
    commit = re.search(r"^commit: ([0-9a-f]{40})$", said, re.MULTILINE)
    router = re.search(r"^router: (\S+)$", said, re.MULTILINE)
    again = [words for words in re.findall(r"^second try: (.+)$", said, re.MULTILINE) if words != "none"]
    return Rings(
        commit[1] if commit else None,
        tuple(name for name, failed in times if not failed),
        tuple(dict.fromkeys([*sorted(named), *stopped])),
        tuple(again),
        router[1] if router else None,
        int(heads[-1][1]),
    )


def expected(script: str) -> tuple[str, ...]:
    """The rings that .ci/run runs, in its order.

    >>> expected('ring check make check\\nonly servers ring_twice "why it may" chaos make chaos\\n')
    ('check', 'chaos')
    """
    return tuple(re.findall(r'^\s*(?:only \w+ )?ring(?:_twice "[^"]+")? (\S+) ', script, re.MULTILINE))
