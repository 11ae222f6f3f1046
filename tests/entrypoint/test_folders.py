from __future__ import annotations

import os
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest
from dsv4_pd.errors import SettingsError, TemporaryError
from dsv4_pd.plan import folders
from dsv4_pd.plan.paths import Paths
from dsv4_pd.settings.load import load as load_settings


def paths(root: Path) -> Paths:
    return Paths(run=root / "run", state=root / "state", cache=root / "cache", temp=root / "run" / "tmp")


def test_folders_are_ours_alone(tmp_path: Path) -> None:
    made = paths(tmp_path)
    folders.make(made)
    for folder in (made.run, made.state, made.cache, made.logs, made.plugin_records, made.temp):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_folder_that_cannot_be_made_is_named_with_its_setting(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    bad = Paths(run=tmp_path / "run", state=tmp_path / "file" / "state", cache=tmp_path / "file" / "cache",
                temp=tmp_path / "run" / "tmp")  # fmt: skip
    with pytest.raises(SettingsError) as caught:
        folders.make(bad)
    assert [problem.subject for problem in caught.value.problems] == ["DSV4_STATE_DIR", "DSV4_CACHE_DIR"]
    assert f"uid {os.getuid()}" in str(caught.value)


def test_a_socket_path_that_is_too_long_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="at most 107"):
        folders.make(paths(tmp_path / ("x" * 100)))


def test_a_second_appliance_in_the_same_folder_is_told_who_holds_it(tmp_path: Path) -> None:
    made = paths(tmp_path)
    folders.make(made)
    with folders.lock(made), pytest.raises(TemporaryError, match=f"process {os.getpid()}") as caught:
        folders.lock(made)
    assert caught.value.exit_code == 75


def test_settings_win_over_defaults(tmp_path: Path) -> None:
    settings = load_settings({"DSV4_RUN_DIR": str(tmp_path / "r")})
    found = folders.resolve(settings, {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": "/nonexistent"})
    assert found.run == tmp_path / "r"
    assert found.cache == found.state / "cache"


def test_temporary_files_avoid_a_file_system_that_may_not_execute(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real, noexec = os.statvfs, tmp_path / "noexec"  # as docker mounts --tmpfs /run
    noexec.mkdir()
    flags = SimpleNamespace(f_flag=os.ST_NOEXEC)
    monkeypatch.setattr(os, "statvfs", lambda path: flags if Path(path).is_relative_to(noexec) else real(path))
    settings = load_settings({"DSV4_RUN_DIR": str(noexec / "run"), "DSV4_CACHE_DIR": str(tmp_path / "cache")})
    assert folders.resolve(settings, {}).temp == tmp_path / "cache" / "tmp"
