"""survey: each question is asked once, of the environment and the machine that were given, of nothing else."""

from __future__ import annotations

import ast
import configparser
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dsv4_pd
import pytest
import yaml
from conftest import ROOT
from dsv4_pd.doctor import preflight
from dsv4_pd.doctor.catalogue import examine
from dsv4_pd.errors import HardwareError, SettingsError, TemporaryError
from dsv4_pd.host.machine import Live, Replay
from dsv4_pd.host.numa import Permission
from dsv4_pd.plan import show
from dsv4_pd.plan.around import surroundings
from dsv4_pd.plan.disk.paths import models_dir, share_dir
from dsv4_pd.plan.model import files as model_files
from dsv4_pd.plan.model import shards
from dsv4_pd.plan.notices import NoticeKind
from dsv4_pd.plan.programs.program import PER_RUN, ConfigFile
from dsv4_pd.plan.shipped import catalogue
from dsv4_pd.plan.shipped.catalogue import Entry
from dsv4_pd.plan.situation import Situation
from dsv4_pd.plan.survey import survey
from dsv4_pd.run import files, serve
from support.plans import eight_cards, make
from support.ports import free_ports

PACKAGE = Path(dsv4_pd.__file__).parent
HOSTS = Path(__file__).parents[1] / "hosts"
CONFIG = share_dir() / "config"
SERVED = [entry for entry in catalogue.read_all(models_dir()).values() if not entry.refused]
ARRIVING = {NoticeKind.MODEL_ABSENT, NoticeKind.MODEL_UNPINNED, NoticeKind.MODEL_UNREAD}


class Asked(Live):
    """This machine with a captured one's cards, counting what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.count: Counter[str] = Counter()
        self.other = Replay(HOSTS / "eight-two-sockets")

    def text(self, path: str) -> str | None:
        self.count[path] += 1
        return self.other.text(path)

    def names(self, path: str) -> tuple[str, ...]:
        return self.other.names(path)

    def link(self, path: str) -> str | None:
        return self.other.link(path)

    def nvml(self) -> dict[str, Any]:
        self.count["nvml"] += 1
        return self.other.nvml()

    def numa(self, node: int) -> Permission:
        self.count["numa"] += 1
        return Permission("preferred", "asked")


def counted(monkeypatch: pytest.MonkeyPatch, count: Counter[str], module: Any, name: str) -> None:
    real: Callable[..., Any] = getattr(module, name)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        count[name] += 1
        return real(*args, **kwargs)

    monkeypatch.setattr(module, name, wrapped)


def environment(root: Path) -> dict[str, str]:
    names = ("PORT", "OPS_PORT", "PREFILL_PORT", "DECODE_PORT", "BOOTSTRAP_PORT", "PREFILL_NCCL_PORT",
             "DECODE_NCCL_PORT", "ROUTER_METRICS_PORT", "ROUTER_PORT", "FRONT_METRICS_PORT")  # fmt: skip
    ports = {f"DSV4_{name}": str(port) for name, port in zip(names, free_ports(len(names)), strict=True)}
    return {"DSV4_RUN_DIR": str(root / "r"), "DSV4_STATE_DIR": str(root / "s"), "HOME": str(root), **ports}


def test_every_question_is_asked_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine, count, opened = Asked(), Counter[str](), Counter[Path]()
    for module, name in ((model_files, "find"), (surroundings, "read_config"), (surroundings, "installed_versions"),
                         (surroundings, "bind_refusal")):  # fmt: skip
        counted(monkeypatch, count, module, name)
    real = Path.open

    def remember(path: Path, *args: Any, **kwargs: Any) -> Any:
        opened[path.resolve()] += 1
        return real(path, *args, **kwargs)

    monkeypatch.setattr(Path, "open", remember)  # under read_text and read_bytes too
    situation = survey({**environment(tmp_path), "DSV4_PRESET": "agent"}, machine)
    examine(situation)
    show.as_dict(situation)
    show.as_text(situation)
    assert {machine.count["nvml"], machine.count["numa"], count["find"], count["installed_versions"]} == {1}
    data = [path for folder in ("profiles", "presets", "models", "models/configs")
            for path in (CONFIG / folder).iterdir() if path.suffix in (".toml", ".json")]  # fmt: skip
    assert len(data) > 10 and {path: opened[path.resolve()] for path in data} == dict.fromkeys(data, 1)
    assert count["bind_refusal"] == 10 and count["read_config"] == 1  # one a port
    decode = next(program for program in situation.planned().programs if program.name == "decode")
    assert decode.argv[:3] == ("numactl", "--cpunodebind=1", "--preferred=1")  # what the dry run allowed


def arrive(hub: Path, entry: Entry, commit: str, branch: str = "") -> Path:
    """A model as a download leaves it. Hides the weights: only what a survey reads of them is there."""
    base = hub / f"models--{entry.hub.replace('/', '--')}"
    folder = base / "snapshots" / commit
    folder.mkdir(parents=True)
    index = {"metadata": {"total_size": entry.weights_bytes}, "weight_map": {"x": "a.safetensors"}}
    for name, data in (("config.json", dict(entry.config)), (shards.INDEX, index), ("tokenizer.json", {"v": 1})):
        (folder / name).write_text(json.dumps(data), encoding="utf-8")
    if branch:
        (base / "refs").mkdir()
        (base / "refs" / branch).write_text(commit, encoding="ascii")
    return folder


def servers_open(situation: Situation) -> set[str]:
    """What the servers' files name as their model."""
    texts = [file.text for file in situation.planned().files if file.path.suffix == ".yaml"]
    return {yaml.safe_load(text)["model-path"] for text in texts}


@pytest.mark.parametrize("entry", SERVED, ids=[entry.name for entry in SERVED])
@pytest.mark.parametrize("speculative", ["off", "block"])
def test_what_is_planned_before_the_model_is_here_is_what_is_started(
    tmp_path: Path, entry: Entry, speculative: str
) -> None:
    algorithm = entry.draft if speculative == "block" and entry.experts != "nvfp4" else "off"
    environ = {**environment(tmp_path), "DSV4_MODEL": entry.name, "DSV4_SPECULATIVE": str(algorithm),
               "HF_HOME": str(tmp_path / "hf")}  # fmt: skip
    before = survey(environ, Asked())
    assert [one.kind for one in before.notices if one.kind in ARRIVING] == [NoticeKind.MODEL_ABSENT]
    folder = arrive(tmp_path / "hf" / "hub", entry, str(entry.revision))
    after = survey(environ, Asked())
    assert after.around.model.path == folder and servers_open(after) == {str(folder)}
    first, second = before.planned(), after.planned()
    assert first.programs == second.programs
    assert {file.path: file.text for file in first.files} == {file.path: file.text for file in second.files}
    assert first.about == second.about and not ARRIVING & {one.kind for one in after.notices}


@pytest.mark.parametrize("revision", ["", "main", "v1", "9e165c3"])
def test_a_model_without_a_commit_says_that_the_folder_is_the_start_s_to_know(tmp_path: Path, revision: str) -> None:
    entry, commit = replace(SERVED[0], hub="someone/finetune"), "c0ffee" * 6 + "c0ff"
    environ = {**environment(tmp_path), "DSV4_MODEL": entry.hub, "DSV4_MODEL_REVISION": revision,
               "HF_HOME": str(tmp_path / "hf")}  # fmt: skip
    before = survey(environ, Asked())
    kinds = {one.kind: one for one in before.notices if one.kind in ARRIVING}
    assert set(kinds) == {NoticeKind.MODEL_UNPINNED, NoticeKind.MODEL_UNREAD} and servers_open(before) == {PER_RUN}
    assert repr(revision or "main") in kinds[NoticeKind.MODEL_UNPINNED].text
    assert kinds[NoticeKind.MODEL_UNPINNED].text in show.as_text(before)
    assert {"kind": "model_unpinned", "subject": "DSV4_MODEL_REVISION"}.items() <= next(
        one for one in show.as_dict(before)["placement"]["notices"] if one["kind"] == "model_unpinned"
    ).items()
    folder = arrive(tmp_path / "hf" / "hub", entry, commit, revision or "main")
    after = survey(environ, Asked())
    assert servers_open(after) == {str(folder)} and not ARRIVING & {one.kind for one in after.notices}
    pinned = survey({**environ, "DSV4_MODEL_REVISION": commit}, Asked())
    assert servers_open(pinned) == {str(folder)}


def test_a_model_that_came_between_survey_and_start_is_planned_again(tmp_path: Path) -> None:
    """Else a branch's servers would be started with what stood in its place in the first plan."""
    environ = {**environment(tmp_path), "DSV4_MODEL": "someone/finetune", "HF_HOME": str(tmp_path / "hf")}
    situation = survey(environ, Asked())
    arrive(tmp_path / "hf" / "hub", replace(SERVED[0], hub="someone/finetune"), "c0ffee" * 6 + "c0ff", "main")
    assert serve._model_is_missing(situation, environ)


READS = {"open", "read_text", "read_bytes", "read_all", "exists", "is_dir", "is_file", "is_symlink", "stat", "lstat",
         "glob", "rglob", "iterdir", "readlink", "write_text", "write_bytes", "expanduser", "cwd", "home", "getenv",
         "is_folder", "urlopen", "Popen", "check_output"}  # fmt: skip


def reads(source: str) -> list[tuple[int, str]]:
    """Calls that ask the disk or the machine, by the name that is called; pathlib's need no import of `os`."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    named = ((c.lineno, c.func.attr if isinstance(c.func, ast.Attribute) else getattr(c.func, "id", "")) for c in calls)
    return [(line, name) for line, name in named if name in READS]


def pure_modules() -> list[Path]:
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter", encoding="utf-8")
    named = [contracts[f"importlinter:contract:{name}"]["source_modules"].split() for name in ("pure", "front-pure")]
    places = [PACKAGE.parent / module.replace(".", "/") for modules in named for module in modules]
    return [
        path for place in places for path in ([place.with_suffix(".py")] if not place.is_dir() else place.rglob("*.py"))
    ]


@pytest.mark.parametrize("path", pure_modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_pure_module_reads_nothing(path: Path) -> None:
    """The import contract sees `os` and sockets; a Path reads without either."""
    assert reads(path.read_text(encoding="utf-8")) == []


def test_reading_is_seen_however_it_is_spelled() -> None:
    source = "def f(p):\n a = p.read_text()\n with open(p) as g: pass\n return presets.read_all(p), p.is_dir()"
    assert sorted(name for _, name in reads(source)) == ["is_dir", "open", "read_all", "read_text"]


def test_the_process_environment_plays_no_part(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given = {**environment(tmp_path), "UCX_TLS": "tcp"}
    monkeypatch.setenv("DSV4_PORT", "nonsense")
    monkeypatch.setenv("DSV4_MODLE", "x")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    situation = survey(given, Asked())
    given["DSV4_PORT"] = given["UCX_TLS"] = "changed later"
    assert situation.settings.port != 8000 and situation.env("UCX_TLS") == "tcp"
    assert "CUDA_VISIBLE_DEVICES" not in situation.planned().environ
    with pytest.raises(SettingsError, match="DSV4_PORT: found 'changed later'"):
        survey(given, Asked())


def test_below_the_command_line_nobody_reads_the_process_environment() -> None:
    """Whole wings, by their source: an `os.environ` that slips in would make what is shown differ from what runs."""
    found = [
        str(path.relative_to(PACKAGE))
        for wing in ("settings", "host", "plan", "doctor")
        for path in (PACKAGE / wing).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv")
        and isinstance(node.value, ast.Name) and node.value.id == "os"
    ]  # fmt: skip
    assert set(found) <= {"doctor/link/agent.py"}  # runs in the engine's interpreter, with what it was given


def test_a_refusal_is_part_of_the_situation_and_the_checks_still_speak() -> None:
    situation = survey({}, Replay(HOSTS / "no-gpu"))
    assert situation.plan is None and isinstance(situation.refusal, HardwareError)
    assert len(examine(situation)) > 40
    with pytest.raises(HardwareError, match="no GPU visible"):
        preflight.refuse(situation)


def test_an_extra_argument_is_refused_together_with_every_other_problem() -> None:
    environ = {"DSV4_PORT": "x", "DSV4_DECODE_EXTRA_ARGS": "--port 1", "DSV4_ROUTER_EXTRA_ARGS": "--log-level debug"}
    with pytest.raises(SettingsError) as caught:
        survey(environ, Replay(HOSTS / "eight-two-sockets"))
    assert {problem.subject for problem in caught.value.problems} == set(environ)


def test_a_value_drawn_by_each_start_is_shown_as_such(tmp_path: Path) -> None:
    plan = make({}, eight_cards(), tmp_path)
    key = ConfigFile(tmp_path / "drawn.key", PER_RUN)
    situation = replace(survey({}, Replay(HOSTS / "eight-two-sockets")), plan=replace(plan, files=(*plan.files, key)))
    assert show.as_dict(situation)["files"][str(key.path)] == "<per run>"
    drawn = []
    for _ in range(2):
        files.write((key,))
        drawn.append(key.path.read_text(encoding="utf-8"))
    assert len(set(drawn)) == 2 and all(len(text) > 30 for text in drawn)


@pytest.mark.parametrize("key", ["k3y-of-mine", "*** k3y"])
def test_plan_masks_the_key_and_nothing_else(tmp_path: Path, key: str) -> None:
    environ = {"DSV4_API_KEY": key, "DSV4_DECODE_EXTRA_ARGS": "--crash-dump-folder '/a/*** b'", "MONKEY": "true"}
    plan = make(environ, eight_cards(), tmp_path)
    shown = show.as_dict(replace(survey({}, Replay(HOSTS / "eight-two-sockets")), plan=plan))
    assert key not in str(shown)
    for file in plan.files:
        assert shown["files"][str(file.path)] == file.text.replace(key, "<secret>")
    assert [program["argv"] for program in shown["programs"]] == [list(program.argv) for program in plan.programs]


def test_a_profile_s_defaults_yield_and_its_model_is_the_shipped_one() -> None:
    plan = make({"DSV4_PROFILE": "demo-cpu", "DSV4_CONTEXT_LENGTH": "512"}, eight_cards())
    assert (plan.settings.context_length, plan.settings.numa) == (512, "off")
    assert plan.settings.model.endswith("demo/model")


@pytest.mark.parametrize(("swept", "surveys"), [(0, 1), (3, 2)])
def test_serve_looks_again_only_after_it_swept_orphans(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, swept: int, surveys: int
) -> None:
    """What a killed run left held cards and ports when the plan was made."""
    seen: list[Any] = []

    def stand_in(environ: Mapping[str, str], machine: Any) -> Any:  # hides what a survey reads; only its place counts
        real = survey(environ, Asked())
        seen.append(real)
        return real

    def stop(situation: Any) -> Any:
        assert situation is seen[-1]
        raise TemporaryError("far enough")

    monkeypatch.setattr(serve, "survey", stand_in)
    monkeypatch.setattr(serve, "sweep", SimpleNamespace(kill=lambda run: swept))
    monkeypatch.setattr(preflight, "refuse", stop)
    with pytest.raises(TemporaryError, match="far enough"):
        serve.run(environment(tmp_path))
    assert len(seen) == surveys
