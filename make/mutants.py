"""Mutation testing of the parts whose silent failure costs most: make/mutants.py [GROUP...] [--floor] [--write]

mutmut changes one operator, constant or call at a time and runs the group's own tests; a mutant that no test notices
has survived. Each group works in a folder of its own, .mutants/GROUP, and stops when its time is up; the next call
resumes where it stopped, and starts over where the code or its tests changed. --floor fails below a group's floor,
--sample tries a fixed share, and --write puts the scores into docs/testing.md.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / ".mutants"
# The tool mutates what lies in src/.
COPIED = {
    "config": "config",
    "docs/generators": "docs/generators",
    "entrypoint/dsv4_pd": "src/dsv4_pd",
    "gate/dsv4_gate": "src/dsv4_gate",
    "tests": "tests",
}
_ENOUGH = 20  # mutants, below which a share says nothing
KILLED = {1, 3, 24, 36, -24, 152, 255}  # a failed test, or one that no longer ends
SURVIVED, UNTESTED = {0}, {5, 33}
PYPROJECT = """
[tool.pytest.ini_options]
addopts = "--import-mode=importlib -q -p no:cacheprovider -p no:xdist"
pythonpath = ["tests", "docs"]
asyncio_mode = "auto"
asyncio_default_fixture_loop_scope = "function"
markers = {markers}
[tool.mutmut]
source_paths = ["src"]
only_mutate = {files}
also_copy = {copied}
pytest_add_cli_args_test_selection = {tests}
pytest_add_cli_args = ["-m", "not slow and not pair and not engine and not docker", "-k", "{chosen}"]
use_git_change_detection = false
timeout_constant = 5.0
"""


@dataclass(frozen=True)
class Group:
    """What is mutated, by which tests it is judged, for how many seconds, and the share that must be killed."""

    files: tuple[str, ...]
    tests: tuple[str, ...]
    budget_s: int
    floor: float = 0.0
    left_out: str = "nothing_is_left_out"  # tests that take longer than they find
    percent: int = 10  # of the mutants that `--sample` tries


GUARD = "entrypoint/dsv4_pd/run/guard"
SETTINGS = "entrypoint/dsv4_pd/settings"
# hours of simulated time, and what they show is in test_policy_steps.py too
SIMULATED = "AnySequence or forgiven or slower_than or tokens_move or by_itself or moving or never or minutes"
GROUPS = {
    "policy": Group(
        (f"{GUARD}/decide/policy.py",),
        (
            "tests/guard/test_policy.py",
            "tests/guard/test_policy_steps.py",
            "tests/guard/test_members.py",
            "tests/guard/test_routes.py",
        ),
        1500,
        0.95,
        SIMULATED,
        percent=12,
    ),
    "guard": Group(
        (f"{GUARD}/decide/conditions.py", f"{GUARD}/prove/path_proof.py", f"{GUARD}/prove/canary.py"),
        ("tests/guard/test_policy.py", "tests/guard/test_path.py", "tests/guard/test_plugin_proof.py"),
        600,
    ),
    "gate": Group(("gate/dsv4_gate/rules.py",), ("tests/gate/test_rules.py",), 600),
    "settings": Group(
        (f"{SETTINGS}/fields.py", f"{SETTINGS}/load.py", f"{SETTINGS}/schema.py"),
        ("tests/entrypoint/test_settings.py",),
        600,
    ),
    "redaction": Group(
        (f"{SETTINGS}/redact.py", f"{SETTINGS}/redaction/*.py"),
        ("tests/entrypoint/test_redact.py",),
        1500,
        0.6,
        "long_secret or makes_it_slow",
        percent=5,
    ),
    "sweep": Group(
        ("entrypoint/dsv4_pd/run/supervision/sweep.py",),
        ("tests/entrypoint/test_sweep.py",),
        300,
    ),
}


@dataclass(frozen=True)
class Score:
    """Mutants by outcome."""

    killed: int
    survived: tuple[str, ...]
    untested: int
    unchecked: int

    @property
    def share(self) -> float:
        """Killed among those that were tried; no test at all counts as survival."""
        tried = self.killed + len(self.survived) + self.untested
        return self.killed / tried if tried else 0.0


def main(argv: list[str]) -> int:
    """Returns 1 when a floor is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("groups", nargs="*", choices=[*GROUPS, []], default=[])
    parser.add_argument("--budget", type=int, help="seconds a group, instead of its own")
    parser.add_argument("--sample", action="store_true", help="only a share of them, chosen by the hash of their names")
    parser.add_argument("--floor", action="store_true")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args(argv)
    scores = {name: run(name, given.budget or GROUPS[name].budget_s, given.sample) for name in given.groups or GROUPS}
    for name, found in scores.items():
        print(f"{name}: {found.share:.1%} of {_tried(found)} mutants killed, {found.unchecked} not reached")
        print("".join(f"  survived: {mutant}\n" for mutant in found.survived), end="")
    if given.write:
        write(scores)
    few = [name for name, each in scores.items() if _tried(each) < _ENOUGH or (given.sample and each.unchecked)]
    below = [name for name, each in scores.items() if name not in few and each.share < GROUPS[name].floor]
    if given.floor and few:
        print(f"not all mutants were reached in time: {', '.join(few)}; run again", file=sys.stderr)
        return 1
    if given.floor and below:
        print(f"below the floor: {', '.join(f'{name} {GROUPS[name].floor:.0%}' for name in below)}", file=sys.stderr)
        return 1
    return 0


def run(name: str, budget_s: int, sample: bool = False) -> Score:
    """Mutate one group for at most so long; what earlier calls found still counts."""
    folder, ends = prepare(name), time.monotonic() + budget_s
    if not sample:
        mutmut(folder, [], budget_s)
        return score(outcomes(folder))
    if not outcomes(folder):  # makes the mutants, and stops because none has this name
        mutmut(folder, ["none"], budget_s)
    chosen = {each: code for each, code in outcomes(folder).items() if in_sample(each, GROUPS[name].percent)}
    if rest := [each for each, code in chosen.items() if code is None]:
        mutmut(folder, rest, ends - time.monotonic())
    return score({each: code for each, code in outcomes(folder).items() if each in chosen})


def in_sample(mutant: str, percent: int) -> bool:
    """Whether a mutant belongs to the share that is always tried: the same on every machine, until its code changes.

    >>> sum(in_sample(f"policy.x__close__mutmut_{number}", 12) for number in range(1000))
    117
    """
    return int(hashlib.sha256(mutant.encode()).hexdigest(), 16) % 100 < percent


def mutmut(folder: Path, mutants: list[str], seconds: float) -> None:
    """Run the tool in a group's folder for at most so long."""
    command: list[str | Path] = [Path(sys.executable).with_name("mutmut"), "run", *mutants]
    environ = os.environ | {"REDACTION_EXAMPLES": "3"}
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(command, cwd=folder, env=environ, stdout=log, stderr=log, start_new_session=True)
        try:
            process.wait(max(1.0, seconds))
        except (subprocess.TimeoutExpired, KeyboardInterrupt) as stopped:
            process.send_signal(signal.SIGINT)  # it writes down what it has
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if isinstance(stopped, KeyboardInterrupt):
                raise


def prepare(name: str) -> Path:
    """The group's folder with the code as it is now; results of other code are thrown away."""
    group, folder = GROUPS[name], WORK / name
    wanted = digest(group)
    if (folder / "digest").exists() and (folder / "digest").read_text() == wanted:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for part, target in COPIED.items():
        shutil.copytree(ROOT / part, folder / target, ignore=shutil.ignore_patterns("__pycache__"))
    markers = re.findall(r'^    "(\w+: [^"]*)",$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    copied = [target for target in COPIED.values() if not target.startswith("src/")]
    files = [re.sub("^(entrypoint|gate)/", "src/", file) for file in group.files]
    values: dict[str, object] = {"files": json.dumps(files), "tests": json.dumps(list(group.tests))}
    values["chosen"] = f"not ({group.left_out})"
    text = PYPROJECT.format(markers=json.dumps(markers), copied=json.dumps(copied), **values)
    (folder / "pyproject.toml").write_text(text)
    (folder / "digest").write_text(wanted)
    return folder


def digest(group: Group) -> str:
    """Of what decides a result: the code, its tests, and how they are run."""
    paths = [path for pattern in (*group.files, *group.tests) for path in sorted(ROOT.glob(pattern))]
    how = f"{PYPROJECT} {COPIED} {group.left_out}".encode()
    return hashlib.sha256(b"".join([how, *(path.read_bytes() for path in paths)])).hexdigest()


def outcomes(folder: Path) -> dict[str, int | None]:
    """The exit code of every mutant; None for one that was not tried."""
    codes: dict[str, int | None] = {}
    for meta in sorted(folder.glob("mutants/**/*.meta")):
        codes |= json.loads(meta.read_text())["exit_code_by_key"]
    return codes


def score(codes: dict[str, int | None]) -> Score:
    """What became of them."""
    if not codes:
        raise SystemExit("no mutant was made; see .mutants/*/log")
    kinds = Counter("killed" if code in KILLED else "untested" if code in UNTESTED else
                    "survived" if code in SURVIVED else "unchecked" for code in codes.values())  # fmt: skip
    survived = tuple(sorted(name for name, code in codes.items() if code in SURVIVED))
    return Score(kinds["killed"], survived, kinds["untested"], kinds["unchecked"])


def _tried(score: Score) -> int:
    return score.killed + len(score.survived) + score.untested


def write(scores: dict[str, Score]) -> None:
    """Replace the table between the marks in docs/testing.md."""
    path = ROOT / "docs/testing.md"
    rows = [
        "| part | mutants tried | killed | survived | no test | not reached | floor |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, score in scores.items():
        floor = f"{GROUPS[name].floor:.0%}" if GROUPS[name].floor else "–"
        cells = (
            name,
            _tried(score),
            f"{score.killed} ({score.share:.0%})",
            len(score.survived),
            score.untested,
            score.unchecked,
            floor,
        )
        rows.append("| " + " | ".join(map(str, cells)) + " |")
    text = path.read_text(encoding="utf-8")
    new, count = re.subn(
        r"(<!-- BEGIN mutants[^\n]*-->\n).*?(<!-- END mutants -->)",
        lambda match: match[1] + "\n".join(rows) + "\n" + match[2],
        text,
        flags=re.DOTALL,
    )
    if count != 1:
        raise SystemExit(f"{path}: no `<!-- BEGIN mutants -->` and `<!-- END mutants -->`")
    path.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
