from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from dsv4_pd.errors import SettingsError, TemporaryError
from dsv4_pd.host.machine import Replay
from dsv4_pd.plan.around import surroundings
from dsv4_pd.plan.disk import folders, trust
from dsv4_pd.plan.disk.paths import Paths
from dsv4_pd.settings.load import load as load_settings
from dsv4_pd.settings.schema import Settings
from support.plans import no_gpu


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


# --- ours alone -----------------------------------------------------------------------------------------------------

STRANGER = 54321
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give folders to another user")


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder like /tmp."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


def refused(made: Paths) -> str:
    with pytest.raises(SettingsError) as caught:
        folders.make(made)
    assert caught.value.exit_code == 2
    return str(caught.value)


@as_root
@pytest.mark.parametrize("name", ["run", "state", "cache"])
def test_a_folder_that_somebody_took_beforehand_is_refused(shared: Path, name: str) -> None:
    """Whoever owns it could replace what is executed from it: the configuration, the compiled kernels."""
    (shared / name).mkdir(mode=0o700)
    (shared / name).chmod(0o777)
    os.chown(shared / name, STRANGER, STRANGER)
    words = refused(paths(shared))
    assert f"DSV4_{name.upper()}_DIR" in words and f"owned by uid {STRANGER}" in words and "set DSV4_" in words


@as_root
def test_every_level_below_the_shared_folder_is_looked_at(shared: Path) -> None:
    (shared / "a" / "b").mkdir(parents=True)
    os.chown(shared / "a", STRANGER, STRANGER)
    assert str(shared / "a") in refused(paths(shared / "a" / "b"))


def test_a_link_below_the_shared_folder_is_refused(shared: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (shared / "a").symlink_to(tmp_path / "elsewhere")
    assert "a link, below" in refused(paths(shared / "a"))


def test_a_link_of_ours_where_nobody_else_writes_is_followed(shared: Path, tmp_path: Path) -> None:
    (tmp_path / "big-disk").mkdir()
    (tmp_path / "link").symlink_to("big-disk")
    folders.make(paths(tmp_path / "link"))
    (tmp_path / "through").symlink_to(shared)  # the shared folder counts also when a link leads there
    (shared / "x").symlink_to(tmp_path / "big-disk")
    assert "a link, below" in refused(paths(tmp_path / "through" / "x"))


def test_a_shared_folder_without_the_sticky_bit_is_refused(shared: Path) -> None:
    shared.chmod(0o777)
    assert "others may replace what is below it" in refused(paths(shared))


def test_what_is_ours_is_made_safe(shared: Path) -> None:
    for name in ("run", "state", "cache"):
        (shared / name).mkdir()
        (shared / name).chmod(0o777)
    (shared / "run" / "log").mkdir()
    (shared / "run" / "log").chmod(0o775)
    made = paths(shared)
    folders.make(made)
    for folder in (made.run, made.state, made.cache, made.logs):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@as_root
def test_what_others_put_into_a_folder_that_was_open_is_refused(shared: Path) -> None:
    (shared / "cache" / "triton").mkdir(parents=True)
    (shared / "cache").chmod(0o777)
    (shared / "cache" / "triton" / "kernel.so").write_text("")
    os.chown(shared / "cache" / "triton" / "kernel.so", STRANGER, STRANGER)
    assert "kernel.so" in refused(paths(shared))


def test_folders_on_the_way_are_made_private_whatever_the_umask(shared: Path) -> None:
    before = os.umask(0)
    try:
        folders.make(paths(shared / "a" / "b"))
    finally:
        os.umask(before)
    for level in (shared / "a", shared / "a" / "b", shared / "a" / "b" / "run"):
        assert stat.S_IMODE(level.stat().st_mode) == 0o700


@as_root
def test_a_root_s_volume_of_a_container_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubernetes mounts an emptyDir as root's with mode 0777; on a bare host that would be anybody's folder."""
    volume = tmp_path / "volume"
    volume.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0777", "volume", volume], check=False).returncode:
        pytest.skip("may not mount a tmpfs here")
    try:
        monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
        monkeypatch.setattr(trust, "_CONTAINER", (str(tmp_path),))
        assert trust.secure(volume) is None
        monkeypatch.setattr(trust, "_CONTAINER", ())
        assert "owned by uid 0" in str(trust.secure(volume))
    finally:
        subprocess.run(["umount", "-l", volume], check=True)


@pytest.mark.parametrize("kind", ["file", "dangling", "loop", "pipe", "below a file"])
def test_what_stands_in_the_way_of_a_folder_is_named(tmp_path: Path, kind: str) -> None:
    there = tmp_path / "there"
    if kind in ("file", "below a file"):
        there.write_text("x")
    elif kind == "pipe":
        os.mkfifo(there)
    else:
        there.symlink_to(tmp_path / ("nowhere" if kind == "dangling" else "there"))
    assert folders.in_the_way(there / "state" if kind == "below a file" else there) == there
    assert folders.in_the_way(tmp_path) is None and folders.in_the_way(tmp_path / "a/b") is None


def test_a_folder_is_no_interpreter(tmp_path: Path) -> None:
    """Its execute bit lets one enter it."""
    file = tmp_path / "python"
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    found = surroundings.read(Settings(numa="off"), {}, no_gpu(), {}, Replay({}), (tmp_path, file))
    assert found.executable == frozenset({file})
