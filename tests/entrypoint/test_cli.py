"""The command line as a person meets it: whole processes, exit codes, what stands on the screen."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import subprocess
import sys
import typing
from pathlib import Path

import click
import pytest
from conftest import ROOT
from dsv4_pd.cli import bench, tune, verify
from dsv4_pd.cli.app import COMMANDS, main
from dsv4_pd.host import capture
from support.plans import eight_cards


def run(*args: str, **environ: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": "/usr/bin:/bin", **environ}
    return subprocess.run([sys.executable, "-m", "dsv4_pd", *args], capture_output=True, text=True, env=env,
                          timeout=60, check=False)  # fmt: skip


@pytest.fixture
def facts(tmp_path: Path) -> str:
    file = tmp_path / "facts.json"
    file.write_text(capture.to_json(eight_cards()))
    return str(file)


@pytest.mark.parametrize("command", [*COMMANDS, ""])
def test_help_works_anywhere(command: str) -> None:
    done = run(*([command] if command else []), "--help", DSV4_PORT="nonsense")
    assert done.returncode == 0 and "sage" in done.stdout


def test_a_misspelt_command_gets_a_suggestion() -> None:
    done = run("statsu")
    assert done.returncode == 2 and "did you mean 'status'?" in done.stderr


def test_plan_prints_the_table_and_masks_the_key(facts: str, tmp_path: Path) -> None:
    done = run("plan", "--facts", facts, DSV4_API_KEY="hunter2hunter2", DSV4_RUN_DIR=str(tmp_path / "r"))
    assert done.returncode == 0, done.stderr
    assert "hunter2" not in done.stdout + done.stderr and "DSV4_API_KEY = <secret>" in done.stdout
    assert "GPU-00000007" in done.stdout and "0-31" in done.stdout and "[program:decode]" in done.stdout
    assert not (tmp_path / "r").exists()  # starts nothing, writes nothing


def test_plan_as_json_is_the_same_plan(facts: str) -> None:
    done = run("plan", "--json", "--facts", facts)
    data = json.loads(done.stdout)
    assert [role["numa_node"] for role in data["placement"]["roles"]] == [0, 1]
    assert [program["name"] for program in data["programs"]] == ["prefill", "decode", "router", "front", "guard"]
    assert data["settings"]["DSV4_PORT"] == 8000


HOSTS = Path(__file__).parents[1] / "hosts"


@pytest.mark.parametrize(("host", "words"), [
    ("eight-two-sockets", ["numactl", "--cpunodebind=1", "--membind=1"]),
    ("plain-docker-run", ["numactl", "--cpunodebind=1"]),  # the capture holds what that container may set
    ("numa-unknown", []),
])  # fmt: skip
def test_plan_replays_a_capture_with_the_numa_policy_of_that_machine(host: str, words: list[str]) -> None:
    done = run("plan", "--json", "--replay", str(HOSTS / host), HF_TOKEN="of-this-machine")
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    argv = next(program["argv"] for program in plan["programs"] if program["name"] == "decode")
    assert argv[: argv.index(next(word for word in argv if word.endswith("python")))] == words
    assert set(plan["environment"]) == {"DSV4_RUN_MARK"}  # nothing of this machine's environment


def test_plan_shows_what_is_inherited_with_secrets_masked(tmp_path: Path) -> None:
    own = {"DSV4_PROFILE": "demo-cpu", "DSV4_RUN_DIR": str(tmp_path / "r"), "DSV4_API_KEY": "k3y-k3y"}
    done = run("plan", **own, HF_TOKEN="tok-en-value", HTTPS_PROXY="http://u:pw123456@proxy:1", EDITOR="vi 'x'")
    assert done.returncode == 0, done.stderr
    assert not [word for word in ("tok-en", "pw123456", "k3y-k3y") if word in done.stdout]
    assert "  HF_TOKEN=<secret>\n" in done.stdout and "http://<secret>@proxy:1" in done.stdout
    inherited = done.stdout.partition("\nenvironment")[2].partition("\n\n")[0]
    assert """  EDITOR='vi '"'"'x'"'"''\n""" in inherited and "DSV4_API_KEY" not in inherited
    assert "\nfile " + str(tmp_path / "r" / "prefill.key") + "\n  <secret>\n" in done.stdout


NOT_FACTS = {"empty": b"", "no JSON": b"not json", "another object": b"{}", "a list": b"[1]", "no text": b"\xff\xfe",
             "a wrong type": b'{"gpus": 3, "numa_nodes": [], "allowed_cpus": "0"}', "too deep": b"[" * 100_000,
             "too deep inside": b'{"gpus": ' + b"[" * 100_000}  # fmt: skip


@pytest.mark.parametrize("content", NOT_FACTS.values(), ids=NOT_FACTS)
def test_a_file_that_is_no_facts_file_is_one_line_and_exit_2(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.json").write_bytes(content)
    done = run("plan", "--facts", str(tmp_path / "x.json"))
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert "--facts: found" in done.stderr and "x.json" in done.stderr and "--capture" in done.stderr


NOT_CAPTURES = {**NOT_FACTS, "no answers": b'{"nvml": {"gpus": [{}]}}', "a number": b'{"nvml": 3}',
                "numa": b'{"nvml": {"gpus": []}, "numa": 3}'}  # fmt: skip


@pytest.mark.parametrize("content", [None, *NOT_CAPTURES.values()], ids=["no file", *NOT_CAPTURES])
@pytest.mark.parametrize("command", ["plan", "doctor"])
def test_a_folder_that_is_no_capture_is_one_line(tmp_path: Path, command: str, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "machine.json").write_bytes(content)
    done = run(command, "--replay", str(tmp_path))
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert "--replay: found" in done.stderr and "machine.json" in done.stderr


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("numa", "[1]"), ("numa", '{"policy": 5}'), ("numa", '{"policy": "membind", "reason": 1}'), ("clock", '"x"'),
        ("files", "3"), ("files", '{"/proc/cmdline": 3}'), ("links", '["a"]'), ("folders", '{"/sys": "a"}'),
        ("bytes", '{"/sys": null}'), ("nvml", "[" * 100_000),
    ],
)  # fmt: skip
def test_every_part_of_a_capture_has_its_kind(tmp_path: Path, part: str, value: str) -> None:
    (tmp_path / "machine.json").write_text(f'{{"nvml": {{"gpus": []}}, "{part}": {value}}}', encoding="utf-8")
    with pytest.raises(ValueError, match=r"a damaged machine\.json") as refused:
        capture.open_capture(tmp_path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("option", ["--facts", "--replay"])
def test_a_place_that_is_not_there_is_one_line(tmp_path: Path, option: str) -> None:
    done = run("plan", option, str(tmp_path / "none"))
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr


def test_a_capture_is_written_and_replayed(tmp_path: Path) -> None:
    assert run("doctor", "--capture", str(tmp_path / "c")).returncode == 0
    assert {path.name for path in (tmp_path / "c").iterdir()} == {"machine.json", "facts.json"}
    assert "numa" in json.loads((tmp_path / "c" / "machine.json").read_text())
    by_machine = run("plan", "--json", "--replay", str(tmp_path / "c"), DSV4_PROFILE="demo-cpu")
    by_facts = run("plan", "--json", "--facts", str(tmp_path / "c" / "facts.json"), DSV4_PROFILE="demo-cpu")
    assert by_machine.returncode == 0 and json.loads(by_machine.stdout) == json.loads(by_facts.stdout)


@pytest.mark.parametrize("command", ["plan", "serve"])
def test_bad_settings_exit_2_with_every_problem(command: str) -> None:
    done = run(command, DSV4_PORT="x", DSV4_MODLE="y")
    assert done.returncode == 2
    assert "DSV4_PORT: found 'x'" in done.stderr and "did you mean DSV4_MODEL?" in done.stderr


def test_an_unknown_profile_is_a_bad_setting(facts: str) -> None:
    done = run("plan", "--facts", facts, DSV4_PROFILE="rtx-pro-6000-x8")
    assert done.returncode == 2 and "did you mean rtx-pro-6000-8x?" in done.stderr


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a GPU")
def test_no_gpu_exits_70_and_says_how_to_go_on() -> None:
    done = run("serve")
    assert done.returncode == 70
    assert "no GPU visible" in done.stderr and "--gpus all" in done.stderr and "demo" in done.stderr


def test_status_without_an_appliance_says_so() -> None:
    done = run("status", "--url", "http://127.0.0.1:9")
    assert done.returncode == 1 and "no appliance answers at http://127.0.0.1:9" in done.stderr


def test_missing_engine_names_the_command_that_installs_it(tmp_path: Path) -> None:
    done = run("demo", DSV4_ENGINE_PYTHON=str(tmp_path / "none"), DSV4_RUN_DIR=str(tmp_path / "r"),
               DSV4_STATE_DIR=str(tmp_path / "s"))  # fmt: skip
    assert done.returncode != 0
    assert "make engine" in done.stderr and len(done.stderr.strip().splitlines()) == 1


def test_no_command_takes_options_that_nothing_checks() -> None:
    """`**given: Any` hides from the type checker what an option is called and holds: options become a dataclass."""
    for path in (ROOT / "entrypoint/dsv4_pd/cli").glob("*.py"):
        functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
        loose = [function.name for function in functions if function.args.kwarg]
        assert loose == (["gathered"] if path.name == "gathered.py" else []), path


@pytest.mark.parametrize("command", [bench.sweep, bench.interfere, bench.layouts, bench.pd_vs_single, bench.saturate,
                                     bench.soaking, verify.command, tune.command])  # fmt: skip
def test_each_option_is_a_parameter_or_a_field(command: click.Command) -> None:
    """An option without a field, or a field without an option, would end in a TypeError when somebody gives it."""
    given = {option.name for option in command.params if option.name}
    inner = command.callback
    assert inner is not None
    while hasattr(inner, "__wrapped__"):
        inner = inner.__wrapped__
    taken = set(inspect.signature(inner).parameters)
    values = {name: hint for name, hint in typing.get_type_hints(inner).items() if dataclasses.is_dataclass(hint)}
    held = {field.name for hint in values.values() for field in dataclasses.fields(hint)}
    assert given <= held | taken - set(values)
    assert held - given <= {"label"}  # of experiments that start their own


@pytest.mark.parametrize("name", ["nowhere/bundle.tar.gz", "file/bundle.tar.gz", "loop"])
def test_an_output_that_cannot_be_written_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.setenv("DSV4_PROFILE", "demo-cpu")
    monkeypatch.setenv("DSV4_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.chdir(tmp_path)
    assert main(["support-bundle", "--output", name]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"dsv4-pd: {name}: found ") and "; name another one" in said and said.count("\n") == 1
