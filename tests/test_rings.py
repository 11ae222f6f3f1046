"""Every test belongs to a ring: what `make test-all` selects, and what CI does, is all that there is."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
EVERYWHERE = ["tests", "entrypoint", "hooks", "gate", "tools"]


@cache
def collected(*arguments: str) -> set[str]:
    """What pytest would run in the control plane's environment."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 5), done.stdout[-2000:]
    return {line for line in done.stdout.splitlines() if "::" in line and not line.startswith(" ")}


def rings(*targets: str) -> list[list[str]]:
    """The arguments of each pytest command in the control plane's environment."""
    recipe = subprocess.run(["make", "-n", *targets], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    lines = recipe.replace("\\\n", " ").splitlines()
    return [shlex.split(words[1]) for line in lines if len(words := line.split("/dev/bin/python -m pytest")) == 2]


SCRIPT = (ROOT / ".ci/run").read_text(encoding="utf-8")
CI = re.findall(r"""^(?:only \w+ )?ring(?:_twice "[^"]+")? \S+ make (\S+)""", SCRIPT, re.MULTILINE)
RINGS = re.findall(r"""^(?:only (\w+) )?ring(?:_twice "[^"]+")? (\S+) """, SCRIPT, re.MULTILINE)  # (part, name)


@pytest.mark.slow
def test_every_test_is_in_a_ring() -> None:
    for targets in (["test-all"], CI):  # together: both collect the same rings
        ran = set[str]().union(*(collected(*ring) for ring in rings(*targets)))
        assert len(ran) > 1000, targets
        left_out = collected("-m", "long", *EVERYWHERE) if targets is CI else set()
        assert not sorted(collected(*EVERYWHERE) - ran - left_out), f"{targets} run none of these; see make/*.mk"


@pytest.mark.parametrize("name", ["test_moved.py", "helper.py"])
def test_a_module_that_cannot_be_imported_fails_the_run(tmp_path: Path, name: str) -> None:
    """Where a module that it names has moved, a file of tests must not be skipped as one without doctests."""
    (tmp_path / name).write_text("from dsv4_pd.nowhere import nothing\n\n\ndef test_it() -> None: ...\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "pyproject.toml", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "ModuleNotFoundError" in done.stdout, done.stdout[-2000:]


# --- .ci/run itself, with every command replaced


def ci(tmp_path: Path, *failures: str, part: str = "all") -> tuple[int, list[str]]:
    """(exit code, lines) of .ci/run on a machine whose `make` fails once for each time that a target is named."""
    (tmp_path / "id").write_text("#!/bin/sh\necho 1000\n")
    (tmp_path / "make").write_text(
        f"#!/bin/sh\nfile={tmp_path}/fail-$1\n[ -s $file ] || exit 0\nsed -i 1d $file\nexit 1\n"
    )
    for tool in ("id", "make"):
        (tmp_path / tool).chmod(0o755)
    for target in failures:
        with (tmp_path / f"fail-{target}").open("a") as file:
            file.write("once\n")
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "CI_PART": part}
    done = subprocess.run(["bash", ROOT / ".ci/run"], env=environ, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


def test_ci_says_what_passed_and_how_long_it_took(tmp_path: Path) -> None:
    code, lines = ci(tmp_path)
    assert code == 0
    assert lines[-1] == f"rings: {len(CI) + 1} passed, 0 failed"
    assert lines[-2] == "second try: none"
    assert len([line for line in lines if re.fullmatch(r"  \S+ \d+ s", line)]) == len(CI) + 1


@pytest.mark.parametrize("part", sorted({of for of, _ in RINGS if of}))
def test_ci_runs_a_part_and_names_what_it_leaves_out(tmp_path: Path, part: str) -> None:
    code, lines = ci(tmp_path, part=part)
    left_out = [name for of, name in RINGS if of not in ("", part)]
    assert code == 0 and len(left_out) > 4
    assert f"part: {part}; not this time: {' '.join(left_out)}" in lines
    took = [line.split()[0] for line in lines if re.fullmatch(r"  \S+ \d+ s", line)]
    assert took == [name for of, name in RINGS if of in ("", part)]


def test_ci_says_last_what_needed_a_second_try_and_why_it_may(tmp_path: Path) -> None:
    code, lines = ci(tmp_path, "test-slow", "chaos")
    assert code == 0
    seconds = [line for line in lines[-4:] if line.startswith("second try: ")]
    assert [line.split()[2] for line in seconds] == ["slow", "chaos"] and all(
        "(may be tried again: " in s for s in seconds
    )
    assert lines[-1] == f"rings: {len(CI) + 1} passed, 0 failed"


@pytest.mark.parametrize(
    ("failures", "ring", "passed"),
    [(["check"], "check", 1), (["test-slow", "test-slow"], "slow", 5), (["test-api"], "api", 10)],
)
def test_ci_fails_where_a_ring_does(tmp_path: Path, failures: list[str], ring: str, passed: int) -> None:
    code, lines = ci(tmp_path, *failures)
    assert code == 1
    assert lines[-2:] == [f"failed: {ring}", f"rings: {passed} passed, 1 failed"]


def test_no_ring_is_tried_twice_without_a_reason() -> None:
    calls = re.findall(r"^(?:only \w+ )?ring_twice (.*)$", SCRIPT, re.MULTILINE)
    assert calls and all(re.match(r'"[^"]{20,}" \S+ make ', call) for call in calls)


FAULTS = {
    "ruff": ("a.py", "import os\n"),
    "ruff-format": ("a.py", "x = { }\n"),
    "shellcheck": ("a.sh", "#!/bin/sh\nrm -r $1/*\n"),
    "hadolint": ("Dockerfile", "FROM debian:latest\n"),
    "codespell": ("a.md", "It is refered to.\n"),  # codespell:ignore refered
}


def test_check_and_ci_run_the_hooks() -> None:
    listed = subprocess.run(["make", "-n", "check"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "pre-commit run --all-files" in listed and "ring check make check" in SCRIPT


@pytest.mark.parametrize("hook", FAULTS)
def test_a_hook_finds_a_fault_and_fetches_nothing(hook: str, tmp_path: Path) -> None:
    """The repository's own configuration, in a repository with one fault, with no way to a network."""
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    hooks = [entry for repo in config["repos"] for entry in repo["hooks"]]
    linters = {entry["id"] for entry in hooks if "commit-msg" not in entry.get("stages", config["default_stages"])}
    assert linters == set(FAULTS)
    assert all(repo["repo"] == "local" for repo in config["repos"])
    for name in (".pre-commit-config.yaml", ".hadolint.yaml", ".shellcheckrc"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / ".venvs").mkdir()
    (tmp_path / ".venvs/dev").symlink_to(sys.prefix)
    run_hook = [f"{sys.prefix}/bin/pre-commit", "run", "--all-files", hook]
    environ = {**os.environ, "PRE_COMMIT_HOME": str(tmp_path / "home"), "HTTPS_PROXY": "http://127.0.0.1:9"}
    for name, text, code in [("clean.txt", "clean\n", 0), (*FAULTS[hook], 1)]:
        (tmp_path / name).write_text(text)
        subprocess.run("git init -q && git add *", shell=True, cwd=tmp_path, check=True)
        done = subprocess.run(run_hook, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout + done.stderr
