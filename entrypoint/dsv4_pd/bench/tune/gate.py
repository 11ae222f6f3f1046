"""Right before fast: a candidate must answer as the present setting does. Pure.

Greedy answers of a batch differ now and then by rounding. Questions that the present setting itself answers in two ways
say nothing about a candidate and are left out; of the others each must be answered alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Answers = Mapping[str, str | None]
ENOUGH = 0.5  # of the questions must be answered alike by the present setting, or nothing can be judged


def stable(passes: Sequence[Answers]) -> dict[str, str]:
    """Questions that every pass answered with the same words."""
    first = passes[0] if passes else {}
    return {
        question: text
        for question, text in first.items()
        if text and all(other.get(question) == text for other in passes[1:])
    }


def reference(passes: Sequence[Answers]) -> tuple[dict[str, str], str | None]:
    """What candidates are held against, or why they can't be."""
    asked, found = len(passes[0]) if passes else 0, stable(passes)
    if not asked or len(found) < ENOUGH * asked:
        return found, (
            f"the present setting answers {len(found)} of {asked} questions with the same words each time: "
            "too few to tell a wrong answer from noise"
        )
    return found, None


def fault(wanted: Mapping[str, str], passes: Sequence[Answers]) -> str | None:
    """The first answer that is another one in every pass, in words; None where all are equal within noise.

    >>> fault({"q": "a"}, [{"q": "b"}, {"q": "b"}])
    "'q': 'b' instead of 'a'"
    >>> fault({"q": "a"}, [{"q": "b"}, {"q": "a"}]) is None
    True
    """
    if not passes:
        return "no question was asked"
    for question, text in wanted.items():
        said = [answers.get(question) for answers in passes]
        if any(not one for one in said):
            return f"{question[:40]!r} was not answered"
        if all(one != text for one in said):
            return f"{question[:40]!r}: {str(said[0])[:60]!r} instead of {text[:60]!r}"
    return None
