"""The hook that reads commit messages, by itself and as `make hooks` installs it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
HOOK = ROOT / "make/commit-msg.sh"
BODY = "\n\nA client that ended early kept its slot."


def verdict(message: str, folder: Path) -> list[str]:
    """What the hook calls wrong; its exit code agrees."""
    path = folder / "message"
    path.write_text(message, encoding="utf-8")
    done = subprocess.run([HOOK, path], env={**os.environ, "LC_ALL": "C"}, capture_output=True, text=True)
    lines = done.stderr.splitlines()
    assert done.returncode == bool(lines)
    assert all(line.startswith("commit message: ") for line in lines)
    return [line.removeprefix("commit message: ").partition(":")[0] for line in lines]


@pytest.mark.parametrize(
    ("message", "wrong"),
    [
        (f"front: release a slot when its client ends{BODY}\n", []),
        (f"{'x' * 72}{BODY}", []),
        (f"{'ü' * 72}{BODY}", []),
        (f"{'x' * 73}{BODY}", ["subject"]),
        (f"front: release a slot.{BODY}", ["subject"]),
        ("front: release a slot\n", ["body"]),
        ("front: release a slot\n\nSigned-off-by: A <a@example.org>\n", ["body"]),
        ("front: release a slot\n\n# Please enter the commit message\n# On branch main\n", ["body"]),
        (f"front: release a slot\n{BODY.strip()}", ["second line"]),
        ("front: release a slot\n\n# ---- >8 ----\ndiff --git a/x b/x\n+text\n", ["body"]),
        ("", ["subject", "body"]),
        (f"{'x' * 90}.\n", ["subject", "subject", "body"]),
        ("Merge branch 'front' into main\n", []),
        ('Revert "front: release a slot when its client ends, whatever it was that ended it"\n', []),
        ("fixup! front: release a slot\n", []),
        ("Merged without a reason\n", ["body"]),
    ],
)
def test_a_message(tmp_path: Path, message: str, wrong: list[str]) -> None:
    assert verdict(message, tmp_path) == wrong


def test_an_installed_hook_refuses_and_the_linters_stay_out_of_messages(tmp_path: Path) -> None:
    """As `make hooks` does, in a repository of its own: one commit is refused, one is made."""
    repository = tmp_path / "clone"
    (repository / "make").mkdir(parents=True)
    for name in ("make/commit-msg.sh", ".pre-commit-config.yaml"):
        shutil.copy(ROOT / name, repository / name)

    def git(*words: str) -> subprocess.CompletedProcess[str]:
        who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
        return subprocess.run(["git", *who, *words], cwd=repository, capture_output=True, text=True)

    git("init", "--quiet")
    git("add", "-A")
    install = [str(Path(sys.executable).with_name("pre-commit")), "install"]
    done = subprocess.run(install, cwd=repository, capture_output=True, text=True, check=True)
    assert {"pre-commit", "commit-msg"} <= {path.name for path in (repository / ".git/hooks").iterdir()}, done.stdout
    (repository / ".git/hooks/pre-commit").unlink()  # the linters' environment is not here
    refused = git("commit", "-m", "a subject alone")
    assert refused.returncode == 1 and "commit message: body: found none" in refused.stdout + refused.stderr
    made = git("commit", "-m", "a subject", "-m", "and why")
    assert made.returncode == 0, made.stderr
    assert git("log", "--format=%s").stdout == "a subject\n"


def test_only_the_message_s_hook_runs_on_messages() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    hooks = {hook["id"]: hook.get("stages", config["default_stages"]) for hook in config["repos"][0]["hooks"]}
    assert [name for name, stages in hooks.items() if "commit-msg" in stages] == ["commit-message"]
    assert {"ruff", "shellcheck", "hadolint", "codespell"} <= {n for n, s in hooks.items() if s == ["pre-commit"]}
