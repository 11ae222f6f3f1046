"""Papers that describe the code agree with it."""

from __future__ import annotations

import re
import subprocess
from functools import partial
from pathlib import Path

import pytest
from generators import wings

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(ROOT.glob("docs/**/*.md")) + sorted(ROOT.glob("*.md"))
LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)#\s]+)")


def test_the_picture_has_no_circle() -> None:
    """Whoever reads the wings top to bottom never has to go back up."""
    left = set(wings.arrows())
    while free := {a for a, _ in left} - {b for _, b in left}:
        left = {edge for edge in left if edge[0] not in free}
    assert not left


def test_every_wing_stands_in_the_table() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    folders = {path.name for path in wings.PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert folders == {row for line in text.splitlines() if line.startswith("| `") for row in re.findall(r"`(\w+)/`", line.split("|")[1])}  # fmt: skip  # noqa: E501


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    broken = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if not (page.parent / link).exists()]
    assert not broken


def test_the_commits_that_contributing_cites_are_in_the_history() -> None:
    """By subject, because hashes change; a shallow clone knows too little to judge."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    cited = re.findall(r"(?<!\*)\*([A-Za-z][^*]{10,})\*(?!\*)", " ".join(text.split("## How to add")[1].split()))
    assert len(cited) >= 5
    git = partial(subprocess.run, cwd=ROOT, capture_output=True, text=True, check=True)
    if git(["git", "rev-parse", "--is-shallow-repository"]).stdout.strip() == "true":
        pytest.skip("a shallow clone")
    assert set(cited) - set(git(["git", "log", "--format=%s"]).stdout.splitlines()) == set()


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
