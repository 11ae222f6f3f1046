"""Words of a private English that must not come back: each has a standard one, which readers and searches know."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# word -> what to write instead
INSTEAD = {
    r"anew": "again, or a verb with re-: restart, rewrite, regenerate",
    r"mend(?:s|ed|ing)?": "fix, repair",
    r"for ever": "forever",
    r"amiss": "wrong; for two lists, mismatch",
    r"lest|hitherto|whence": "so that ... not, until now, from where",
    r"(?:is|are|was|were) heard of": "detected, reported",
    r"so often in all": "total number of",
    r"none overtakes its like": "at most one of each kind is in flight",
    r"strikes?": "confirmed failure",
    r"(?:canary|canaries|it) (?:flies|flew|fly)": "is sent, was sent",
    r"hand-overs?": "transfer",
    r"(?:both|other|dead|sick) hal(?:f|ves)": "server, role, peer",
    r"says? what is wrong with it": "reports the problem",
    r"go(?:es)? on where (?:it|the first) (?:stopped|ended|was)": "resumes where it stopped",
    r"broken off": "interrupted, cut off",
    r"taken up again": "resumed",
    r"on and on": "repeatedly, keeps ...ing",
    r"as ever": "as usual",
    r"the begin": "the beginning, the start",
    r"with commas between": "comma-separated",
    r"goes with \d[\d.]*": "will be removed in",
    r"(?:says?(?: it)?|load) in (?:one|a) word": "names, sets",
    r"ends? (?:of the program )?that (?:was|were) not asked for": "unexpected exits",
    r"thousand million": "billion",
    r"(?:CPUs|memory) enough": "enough CPUs, enough memory",
}
# The words in another sense, by file.
SENSES = {"docs/kernels/": (r"(?:both|other) hal(?:f|ves)",), "kernels/": (r"(?:both|other) hal(?:f|ves)",)}
OURSELVES = Path(__file__).resolve().relative_to(ROOT).as_posix()


def tracked() -> list[str]:
    """Text that we write: what others wrote (locks, licence, records of runs) is quoted as it is."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    kept = (".py", ".md", ".toml", ".yml", ".yaml", ".sh", ".mk", ".html", ".json", ".in", ".ini", ".cfg", ".c", ".css")
    plain = ("Dockerfile", "Makefile", ".env.example", "run", "uv", ".importlinter", ".gitignore", ".dockerignore")
    return [
        name
        for name in listed
        if (name.endswith(kept) or name.rsplit("/", 1)[-1] in plain)
        and not name.startswith(("demo/model/", "tests/gpu/records/", "tests/hosts/"))
        and name != OURSELVES
    ]


NAME = re.compile(r"\b\w*_\w*\b")
ANY = re.compile(r"(?<![\w-])(?:{})(?![\w-])".format("|".join(INSTEAD).replace(" ", r"[\s#*]+")), re.IGNORECASE)


def found(name: str, text: str) -> list[str]:
    """`file:line: word: instead` for each word that must not be there, also as a part of a name with underscores."""
    allowed = [word for folder, words in SENSES.items() if name.startswith(folder) for word in words]
    apart = NAME.sub(lambda match: match[0].replace("_", " "), text)  # as long as before, so that lines stay
    matches = [match for match in ANY.finditer(apart) if not any(_is(match[0], sense) for sense in allowed)]
    return [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]!r}: {_instead(match[0])}" for match in matches
    ]


def _is(word: str, pattern: str) -> bool:
    return bool(re.fullmatch(pattern.replace(" ", r"[\s#*]+"), word, re.IGNORECASE))


def _instead(word: str) -> str:
    return next(instead for pattern, instead in INSTEAD.items() if _is(word, pattern))


def test_no_word_came_back() -> None:
    files = tracked()
    assert len(files) > 600, "the list of files is not what it was"
    lines = [line for name in files for line in found(name, (ROOT / name).read_text(encoding="utf-8"))]
    assert not lines, "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("the file is written anew", 1),
        ("waits for\n    # ever", 1),
        ("it mends the cards, then both halves", 2),
        ("Amendment 2 and a manewver", 0),
        ("for every token", 0),
        ("the canary is sent again", 0),
        ("def test_a_wait_begins_anew() -> None:\n    mends_it = both_halves", 3),
        ("begin_anewer", 0),
    ],
)
def test_words_are_found_across_lines_and_not_inside_others(text: str, count: int) -> None:
    assert len(found("docs/page.md", text)) == count


def test_a_word_may_have_another_sense_in_some_folders() -> None:
    assert not found("kernels/dsv4_kernels/kernel.py", "Bytes of both halves [4, BN, 64]")
    assert found("docs/health.md", "both halves")
