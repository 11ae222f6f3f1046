"""The set-up of the demo's environments, without installing any."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from support import setup_engine

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "docker"
LOCKS = sorted([*DOCKER.glob("engine-cpu*.lock"), DOCKER / "router.lock", DOCKER / "smg.lock"])


@pytest.fixture(scope="module")
def setup() -> ModuleType:
    return setup_engine.load()


def fake_python(folder: Path, name: str, version: str, *, has_venv: bool = True) -> Path:
    """An interpreter that knows its version and whether the venv module is there."""
    folder.mkdir(exist_ok=True)
    python = folder / name
    status = 0 if has_venv else 1
    script = f'#!/bin/sh\ncase "$2" in *version_info*) echo {version};; *ensurepip*) exit {status};; esac\n'
    python.write_text(script)
    python.chmod(0o755)
    return python


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_locks_pin_and_hash_everything_and_name_no_host(lock: Path) -> None:
    text = lock.read_text()
    assert "://" not in text
    blocks = re.split(r"\n(?=[a-z0-9])", re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE).strip())
    assert blocks
    for block in blocks:
        assert re.match(r"[a-z0-9.-]+==[^ ]+ \\\n", block), block
        assert "--hash=sha256:" in block


def test_the_two_builds_of_torch_are_one_version() -> None:
    cpu = re.search(r"^torch==(\S+)", (DOCKER / "engine-cpu-torch.lock").read_text(), re.MULTILINE)
    stock = re.search(r"^torch==(\S+)", (DOCKER / "engine-cpu-cuda.lock").read_text(), re.MULTILINE)
    assert cpu and stock
    assert cpu[1] == f"{stock[1]}+cpu"


def test_the_stock_download_is_told_in_bytes(setup: ModuleType) -> None:
    assert 2e9 < setup.stock_download_bytes() < 4e9


def test_only_an_unfit_python(setup: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = fake_python(tmp_path / "bin", "python3", "3.13")
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(setup.SetupError, match=r"needs Python 3\.11 or 3\.12, found only 3\.13 .*install python3\.11"):
        setup.choose_python(("3.11", "3.12"))


def test_another_python_on_path_is_taken(setup: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(fake_python(tmp_path / "bin", "python3", "3.13")))
    fitting = fake_python(tmp_path / "bin", "python3.12", "3.12")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert setup.choose_python(("3.11", "3.12")) == str(fitting)


def test_a_command_that_does_not_run_is_passed_over(
    setup: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version manager leaves python3.11 on PATH whether or not that version is installed."""
    folder = tmp_path / "bin"
    monkeypatch.setattr(sys, "executable", str(fake_python(folder, "python3", "3.13")))
    broken = fake_python(folder, "python3.11", "3.11")
    broken.write_text("#!/bin/sh\nexit 127\n")
    fitting = fake_python(folder, "python3.12", "3.12")
    monkeypatch.setenv("PATH", str(folder))
    assert setup.choose_python(("3.11", "3.12")) == str(fitting)


def test_a_python_without_venv(setup: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = fake_python(tmp_path / "bin", "python3", "3.11", has_venv=False)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(setup.SetupError, match=r"apt-get install python3\.11-venv"):
        setup.choose_python(("3.11", "3.12"))


def test_too_little_space(setup: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "can_get_cpu_torch", lambda venv: False)
    monkeypatch.setattr(setup.shutil, "disk_usage", lambda path: setup.shutil._ntuple_diskusage(9, 8, int(1e9)))
    with pytest.raises(setup.SetupError, match=r"has 1\.0 GB free, the engine needs 8\.5 GB"):
        setup.announce_torch(tmp_path)


def test_what_is_downloaded_is_said_first(
    setup: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(setup, "can_get_cpu_torch", lambda venv: False)
    monkeypatch.setattr(setup.shutil, "disk_usage", lambda path: setup.shutil._ntuple_diskusage(9, 0, int(1e12)))
    assert setup.announce_torch(tmp_path) is False
    assert "2.7 GB to download" in capsys.readouterr().out
    monkeypatch.setattr(setup, "can_get_cpu_torch", lambda venv: True)
    assert setup.announce_torch(tmp_path) is True
    assert "CPU build of torch" in capsys.readouterr().out


class Installed:
    """Stands for pip: notes what would be installed, and leaves an interpreter that runs."""

    def __init__(self, setup: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
        self.acts: list[str] = []
        self.setup = setup
        monkeypatch.setattr(setup, "install_packages", self.packages)
        monkeypatch.setattr(setup, "install_ours", lambda *_, **__: self.acts.append("ours"))
        monkeypatch.setattr(setup, "prove", lambda *_: self.acts.append("prove"))

    def packages(self, _: object, venv: Path) -> bool:
        self.acts.append("packages")
        (venv / "bin").mkdir(parents=True, exist_ok=True)
        fake_python(venv / "bin", "python", "3.11")
        return True


def test_a_second_call_does_nothing(setup: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pip = Installed(setup, monkeypatch)
    setup.ensure(setup.ENGINE, tmp_path)
    assert pip.acts == ["packages", "ours", "prove"]
    setup.ensure(setup.ENGINE, tmp_path)
    assert pip.acts == ["packages", "ours", "prove"]


def test_only_what_changed_is_installed_again(
    setup: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip = Installed(setup, monkeypatch)
    setup.ensure(setup.ENGINE, tmp_path)
    monkeypatch.setattr(setup, "digest_ours", lambda _: "other sources")
    setup.ensure(setup.ENGINE, tmp_path)
    assert pip.acts[3:] == ["ours", "prove"]
    monkeypatch.setattr(setup, "digest_locks", lambda _: "other locks")
    setup.ensure(setup.ENGINE, tmp_path)
    assert pip.acts[5:] == ["packages", "ours", "prove"]


def test_an_environment_that_failed_its_proof_is_not_taken_for_ready(
    setup: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip = Installed(setup, monkeypatch)

    def fail(*_: object) -> None:
        raise setup.SetupError("it does not import")

    monkeypatch.setattr(setup, "prove", fail)
    for _ in range(2):
        with pytest.raises(setup.SetupError):
            setup.ensure(setup.ENGINE, tmp_path)
    assert pip.acts == ["packages", "ours", "ours"]
    assert "ours" not in json.loads((tmp_path / "engine" / setup.STAMP).read_text())


def test_an_interpreter_that_is_gone_is_replaced(
    setup: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip = Installed(setup, monkeypatch)
    setup.ensure(setup.ENGINE, tmp_path)
    (tmp_path / "engine/bin/python").unlink()
    setup.ensure(setup.ENGINE, tmp_path)
    assert pip.acts[3:] == ["packages", "ours", "prove"]


def test_an_unknown_name_is_refused(setup: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        setup.main(["egnine"])
    assert "unknown environment 'egnine'; there are: engine, router, smg" in capsys.readouterr().err
