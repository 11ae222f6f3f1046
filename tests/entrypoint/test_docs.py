"""Papers that describe the code agree with it."""

from __future__ import annotations

import re
import subprocess
from functools import partial
from pathlib import Path

import pytest
from generators import wings

ROOT = Path(__file__).resolve().parents[2]


def test_the_picture_has_no_circle() -> None:
    """Whoever reads the wings top to bottom never has to go back up."""
    left = set(wings.arrows())
    while free := {a for a, _ in left} - {b for _, b in left}:
        left = {edge for edge in left if edge[0] not in free}
    assert not left


@pytest.mark.parametrize(
    ("heading", "folder"),
    [
        ("## The wings of `entrypoint/dsv4_pd`", "."),
        ("### The rooms of `plan/`", "plan"),
        ("### The rooms of `run/guard/`", "run/guard"),
    ],
)
def test_every_folder_stands_in_its_table(heading: str, folder: str) -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    section = text.split(f"{heading}\n")[1].split("\n#")[0]
    folders = {path.name for path in (wings.PACKAGE / folder).iterdir() if (path / "__init__.py").exists()}
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert folders == {name for row in rows for name in re.findall(r"`(\w+)/`", row)}


def recipes() -> dict[str, tuple[list[str], list[str]]]:
    """What is added -> (subjects of the commits that it cites, paths that it names)."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## How to add")[1].split("\n## ")[0]
    found = {}
    for paragraph in text.split("\n\n**")[1:]:
        words = " ".join(paragraph.split())
        cited = re.findall(r"(?<!\*)\*([A-Za-z][^*]{10,})\*(?!\*)", words.partition("**")[2])
        paths = [re.sub("NAME.*", "", path) for path in re.findall(r"`(\w+/[\w./-]+)`", words)]
        found[words.partition("**")[0].rstrip(".")] = (cited, paths)
    return found


def files_of(subject: str, kinds: str = "") -> set[str]:
    """What the commit of that subject touched (kinds: git's --diff-filter). By subject, because hashes change."""
    git = partial(subprocess.run, cwd=ROOT, capture_output=True, text=True, check=True)
    if git(["git", "rev-parse", "--is-shallow-repository"]).stdout.strip() == "true":
        pytest.skip("a shallow clone knows too little to judge")
    log = git(["git", "log", "--format=%h %s"]).stdout.splitlines()
    hashes = [line.partition(" ")[0] for line in log if line.partition(" ")[2] == subject]
    assert hashes, f"no commit has the subject {subject!r}"
    shown = git(["git", "show", "--format=", "--name-only", f"--diff-filter={kinds}", hashes[0]]).stdout
    return set(shown.split())


@pytest.mark.parametrize("what", ["A setting", "A doctor check", "A profile", "A kernel"])
def test_the_commits_that_contributing_cites_did_what_it_says(what: str) -> None:
    subjects, named = recipes()[what]
    assert subjects and named
    for subject in subjects:
        touched = files_of(subject)
        assert any(file.startswith(path) for file in touched for path in named), (subject, sorted(touched))


def test_every_other_cited_commit_is_in_the_history() -> None:
    assert all(files_of(subject) for subjects, _ in recipes().values() for subject in subjects)


def test_the_example_of_a_kernel_is_one_folder_in_the_design_s_order() -> None:
    added = files_of(recipes()["A kernel"][0][0], "A")
    assert len({Path(name).parent for name in added if name.startswith("kernels/dsv4_kernels/")}) == 1
    assert {Path(name).name for name in added} >= {"reference.py", "tiling.py", "kernel.py", "op.py"}


def test_the_example_of_a_check_is_one_file_and_its_tests() -> None:
    (subject,), _ = recipes()["A doctor check"]
    assert len(files_of(subject, "A")) == 1
    written = ("docs/", "tests/")
    assert [name for name in files_of(subject, "M") if not name.startswith(written)] == []


def test_the_entrance_holds_at_most_ten_names() -> None:
    """`ls` of the package reads as the data flows: nine wings and the errors that they share."""
    names = {path.name for path in wings.PACKAGE.iterdir() if not path.name.startswith(("_", "."))} - {"py.typed"}
    assert len(names) <= 10, names


def test_no_table_capitalises_a_command() -> None:
    """`Sudo apt install` is no command: what is to be typed is written as it is typed."""
    text = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
    cells = [cell.strip(" |") for line in text.splitlines() if line.startswith("|") for cell in line.split(" | ")]
    first = {cell.split()[0].rstrip(":;,") for cell in cells if cell}
    assert {"sudo", "docker", "nvidia-smi"} <= first
    typed = {
        "sudo",
        "docker",
        "nvidia-smi",
        "nvidia-ctk",
        "lspci",
        "dmesg",
        "dkms",
        "systemctl",
        "apt",
        "dsv4-pd",
        "ls",
    }
    assert not {word for word in first if word not in typed and word.lower() in typed}
