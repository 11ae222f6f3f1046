"""The runner of real clients and its page, without a network and without a client."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path

import pytest

from clients import __main__ as main
from clients import page, running
from clients.running import SCRIPTS, Tried

# The clients that must be tried: what people use.
EXPECTED = {
    "agents_python", "ai_sdk_npm", "aider_python", "anthropic_python", "claude_code_python", "codex_npm",
    "instructor_python", "langchain_python", "litellm_proxy_python", "litellm_python", "llamaindex_python",
    "llm_python", "open_webui_python", "openai_npm", "openai_python", "pydantic_ai_python",
}  # fmt: skip
GOOD = '{"version": "1.2"}\n{"case": "a", "problem": null, "seconds": 0.1}\n'


def test_every_client_has_a_script_and_a_lock_of_its_own() -> None:
    assert set(SCRIPTS) == EXPECTED
    of_npm = {path.parent.name for path in page.LOCKS.glob("*/package-lock.json")}
    assert {path.stem for path in page.LOCKS.glob("*.lock")} | of_npm == EXPECTED


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_what_is_installed_is_hashed_and_names_no_index(name: str) -> None:
    if name.endswith("_npm"):
        packages = json.loads((page.LOCKS / name / "package-lock.json").read_text())["packages"]
        assert all(one.get("integrity", "").startswith("sha512-") for path, one in packages.items() if path)
        assert not any("resolved" in one for one in packages.values())
        return
    text = (page.LOCKS / f"{name}.lock").read_text()
    assert "://" not in text
    pinned = [line for line in text.splitlines() if line[:1] not in ("", "#", " ")]
    assert all("==" in line for line in pinned)
    assert len(pinned) == len(re.findall(r"^\S.*\\\n    --hash=sha256:", text, re.MULTILINE))


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_every_block_says_what_a_person_pastes(name: str) -> None:
    block = page.block(name)
    assert page.HOST in block.lines
    assert page.NAME in block.lines or name == "open_webui_python"  # which lists the models itself
    assert page.THEIRS in block.lines or "DSV4_KEY" in block.where + block.lines or "keys set" in block.where
    left = re.sub(r"[A-Z]+_\w+|YOUR KEY", "", block.lines)
    assert not re.search(r"\b(BASE|KEY|MODEL|CONTEXT|4096|65536)\b", left)
    assert '"""' not in block.lines and "`" not in block.lines
    assert page.install(name).split()[2:]


def test_a_block_in_a_file_is_the_file_alone() -> None:
    block = page.block("llm_python")
    assert block.where.startswith("extra-openai-models.yaml") and block.kind == "yaml"
    assert block.lines.startswith("- model_id: dsv4\n") and "api_base: http://HOST:8000/v1\n" in block.lines


def test_a_block_of_code_is_code() -> None:
    assert page.block("llamaindex_python").lines.splitlines()[9] == "    context_window=524288,"
    assert 'OpenAI(base_url="http://HOST:8000/v1", api_key="YOUR KEY")' in page.block("openai_python").lines
    compile(page.block("openai_python").lines, "pasted", "exec")


def test_the_page_is_that_of_the_recorded_runs() -> None:
    record, limits = json.loads(page.RECORD.read_text()), page.limits()
    assert page.PAGE.read_text() == page.render(record, limits)
    assert set(record) | set(limits) <= EXPECTED
    assert not page.unexplained(record, limits)
    for name, one in record.items():  # locks that moved on ask for a run
        assert one["version"] in locked(name), name


def locked(name: str) -> set[str]:
    if name.endswith("_npm"):
        packages = json.loads((page.LOCKS / name / "package-lock.json").read_text())["packages"]
        return {one.get("version") for one in packages.values()}
    return set(re.findall(r"==(\S+)", (page.LOCKS / f"{name}.lock").read_text()))


@pytest.mark.parametrize(
    ("problem", "limit", "wrong"),
    [(None, {}, 0), ("x", {}, 1), ("x", {"a": "not here"}, 0), (None, {"a": "not here"}, 1), (None, {"gone": "y"}, 1)],
)
def test_only_limits_that_are_true_explain(problem: str | None, limit: dict[str, str], wrong: int) -> None:
    found = {"openai_python": {"version": "1", "cases": {"a": problem}}}
    assert len(page.unexplained(found, {"openai_python": limit, "llm_python": {"b": "not tried now"}})) == wrong


def test_a_run_of_some_clients_keeps_what_is_recorded_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RECORD", "PAGE"):
        monkeypatch.setattr(page, name, tmp_path / name)
    page.store({"llm_python": {"version": "1", "cases": {"old": None}}})
    page.store({"agents_python": {"version": "2", "cases": {"a": None}}})
    page.store({"llm_python": {"version": "3", "cases": {"z": None, "b": None}}})
    record = json.loads(page.RECORD.read_text())
    assert {name: one["version"] for name, one in record.items()} == {"agents_python": "2", "llm_python": "3"}
    assert list(record["llm_python"]["cases"]) == ["z", "b"]  # in the script's own order
    assert page.PAGE.read_text() == page.render(record, page.limits())


def test_what_a_script_says_is_read_among_what_its_client_prints() -> None:
    noise = '{"case": broken\n{"other": 1}\nplain words\n'
    assert running.read(noise + GOOD, "", 0) == Tried("1.2", {"a": None})
    assert running.read("", "no module", 1).cases == {"the lines to paste": "no module"}
    assert running.read(GOOD, "it broke", 1).cases == {"a": None, "the lines to paste": "it broke"}
    assert running.read("", "", 0).cases == {"the lines to paste": "ended with 0"}


def test_a_client_that_hangs_loses_nothing_of_what_it_said(tmp_path: Path) -> None:
    """Its output is in no UTF-8, and what it started would hang on."""
    said = GOOD.encode() + bytes([255])
    started = "print(subprocess.Popen(['sleep', '60']).pid, file=open('child', 'w'), flush=True)"
    program = f"import os, subprocess, time; os.write(1, {said!r}); {started}; time.sleep(60)"
    assert running.ended([sys.executable, "-c", program], {"PATH": "/usr/bin:/bin"}, tmp_path, 3) == -1
    child = Path("/proc", (tmp_path / "child").read_text().strip(), "stat")
    deadline = time.monotonic() + 30
    while child.exists() and child.read_text().split()[2] != "Z":
        assert time.monotonic() < deadline, child.read_text()
        time.sleep(0.05)
    out, err = ((tmp_path / name).read_text(errors="replace") for name in ("out", "err"))
    assert running.read(out, err, -1).cases == {"a": None, "the lines to paste": "not within 3 s"}


def test_the_demo_s_model_gets_room_and_no_other_weights(tmp_path: Path) -> None:
    """What Codex sends before a question is 41,000 bytes, of which the model's tokenizer makes half as many tokens."""
    wide, shipped = main.wide(tmp_path / "model"), page.ROOT / "demo/model"
    assert json.loads((wide / "config.json").read_text())["max_position_embeddings"] > main.CONTEXT > 41000
    assert (wide / "model.safetensors").read_bytes() == (shipped / "model.safetensors").read_bytes()


def test_another_run_takes_nothing_but_scripts() -> None:
    assert {path.suffix for path in SCRIPTS.values()} == {".py", ".mjs"}
