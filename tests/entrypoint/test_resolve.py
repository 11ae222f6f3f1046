"""`plan --resolve` with stand-ins for the programs' interpreters: what each may answer, and what is made of it.

The stand-ins hide the programs; what the real ones answer is in test_consumers.py and test_engine_args.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from dsv4_pd.plan.resolve.ask import Resolved, _read

SHOWS_ARGUMENTS = "print(json.dumps({'resolved': {'port': 1, 'context_length': 4352, 'argv': sys.argv}}))"
SERVES = "print('a library says hello'); print(json.dumps({'resolved': {'port': 30000, 'context_length': 4352}}))"
REFUSES = "print(json.dumps({'error': 'ValueError: page size 7 is not supported'})); sys.exit(1)"
BREAKS = "sys.stderr.write('Traceback\\nImportError: no module named sglang\\n'); sys.exit(1)"
SILENT = "sys.exit(3)"


def interpreter(folder: Path, name: str, script: str) -> str:
    """A program in the place of an interpreter: answers as told, whatever it is asked."""
    path = folder / name
    path.write_text(f"#!{sys.executable}\nimport json, sys\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def plan(folder: Path, engine: str, router: str, *options: str, **environ: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": "/usr/bin:/bin", "DSV4_PROFILE": "demo-cpu", "DSV4_RUN_DIR": str(folder / "run"), **environ}
    env |= {"DSV4_ENGINE_PYTHON": engine, "DSV4_ROUTER_PYTHON": router, "DSV4_STATE_DIR": str(folder / "state")}
    command = [sys.executable, "-m", "dsv4_pd", "plan", "--resolve", *options]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)


def test_programs_that_accept_are_a_success(tmp_path: Path) -> None:
    done = plan(tmp_path, interpreter(tmp_path, "engine", SERVES), interpreter(tmp_path, "router", SERVES))
    assert done.returncode == 0, done.stderr
    assert "  prefill: accepted\n" in done.stdout and "  router: accepted" in done.stdout
    assert "  decode: accepted (port: 30001 becomes 30000)\n" in done.stdout, "what it changes is shown"
    assert not (tmp_path / "run").exists(), "nothing is started, nothing written"


@pytest.mark.parametrize(
    ("engine", "router", "code", "words"),
    [
        (REFUSES, SERVES, 2, "prefill: found ValueError: page size 7 is not supported, expected a command line that"),
        (SERVES, REFUSES, 2, "router: found ValueError: page size 7"),
        (BREAKS, SERVES, 2, "decode: found ImportError: no module named sglang"),
        (SILENT, SERVES, 2, "decode: found it ended with code 3"),
    ],
)
def test_a_program_that_refuses_is_a_wrong_setting(
    tmp_path: Path, engine: str, router: str, code: int, words: str
) -> None:
    done = plan(tmp_path, interpreter(tmp_path, "engine", engine), interpreter(tmp_path, "router", router))
    assert done.returncode == code and words in done.stderr, done.stderr


def test_a_program_that_is_not_here_was_not_asked(tmp_path: Path) -> None:
    """Not a wrong setting: nobody knows."""
    done = plan(tmp_path, str(tmp_path / "none"), interpreter(tmp_path, "router", SERVES))
    assert done.returncode == 1 and f"not asked: {tmp_path}/none is not here" in done.stderr
    assert "router: accepted" in done.stdout


def test_answers_as_json_and_no_secret_among_them(tmp_path: Path) -> None:
    asked = interpreter(tmp_path, "engine", SHOWS_ARGUMENTS)
    done = plan(tmp_path, asked, asked, "--json", DSV4_API_KEY="hunter2hunter2")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["resolved"]
    assert set(found) == {"prefill", "decode", "router"} and found["prefill"]["error"] is None
    assert "--config" in found["prefill"]["values"]["argv"] and "hunter2" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("out", "err", "error"),
    [
        ('noise\n{"resolved": {"port": 1}}\n', "", None),
        ('{"error": "no"}', "", "no"),
        ("", "one\nlast words\n", "last words"),
        ("no json", "", "it ended with code 7"),
        ("[1]", "", "it ended with code 7"),
    ],
)
def test_an_answer_is_the_last_line_or_the_last_words(out: str, err: str, error: str | None) -> None:
    assert _read("x", 7, out, err).error == error


def test_only_what_was_asked_and_changed_is_shown() -> None:
    answer = Resolved("decode", {"port": 7, "tp_size": 4, "model_path": "/m", "device": "cuda"})
    assert answer.line({"port": 7, "tp-size": 2, "device": "cpu"}) == "decode: accepted (tp_size: 2 becomes 4)"
    assert Resolved("decode", {}, "why").line({}) == "decode: why"
