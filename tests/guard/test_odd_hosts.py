"""Commands and `serve` where a container is unusual: a host name of 64 characters with dots, a user of number two
billion whom no file knows, a root that can't be written, a home that is not there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from guard.appliance import QUICK
from guard.test_serve import PROGRAM, Served

UID = 2_000_000_000
HOST = "a" * 31 + "." + "b" * 32  # the longest that Linux has
# A root of its own over this machine's, read-only, in which the interpreter can be read by everybody.
ENTER = """set -e
root=$1 kept=$2 base=$3 repository=$4
shift 4
mkdir -p "$root"
mount --bind / "$root"
mount -o remount,bind,ro "$root"
for folder in proc dev sys; do mount --rbind "/$folder" "$root/$folder"; done
for path in "$base" "$repository"; do
  closed= above=$path
  while [ "$above" != / ]; do
    case $(stat -c %A "$above") in *[xt]) ;; *) closed=$above ;; esac
    above=$(dirname "$above")
  done
  [ -n "$closed" ] || continue
  mountpoint -q "$root$closed" || mount -t tmpfs -o mode=755 tmpfs "$root$closed"
  mkdir -p "$root$path"
  mount --bind "$path" "$root$path"
done
mount -t tmpfs -o mode=1777 tmpfs "$root/run"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mkdir -p "$root$kept"
mount --bind "$kept" "$root$kept"
hostname "$HOST_NAME"
exec chroot "$root" setpriv --reuid="$USER_NUMBER" --regid=0 --clear-groups --no-new-privs \\
  env HOME=/nonexistent PYTHONDONTWRITEBYTECODE=1 "$@"
"""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root makes such a host"),
]


def entered(folder: Path, *command: str) -> list[str]:
    """A command in such a place, where `folder` alone is writable."""
    (folder / "kept").mkdir(exist_ok=True)
    os.chown(folder / "kept", UID, 0)
    root, kept = str(folder / "root"), str(folder / "kept")
    return ["unshare", "--uts", "--mount", "sh", "-c", ENTER, "enter", root, kept, sys.base_prefix, str(ROOT), *command]


def environ(**more: str) -> dict[str, str]:
    path = ":".join([str(ROOT / "entrypoint"), os.environ.get("PYTHONPATH", "")])
    return {"PATH": os.environ["PATH"], "HOST_NAME": HOST, "USER_NUMBER": str(UID), "PYTHONPATH": path, **more}


def run(folder: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = entered(folder, sys.executable, "-m", "dsv4_pd", *arguments)
    return subprocess.run(command, capture_output=True, text=True, env=environ(**more), timeout=120, check=False)


def test_the_place_is_what_it_should_be(tmp_path: Path) -> None:
    shown = "id -u; hostname; touch /x || echo read-only; touch /run/y && echo writable; echo ~"
    done = subprocess.run(entered(tmp_path, "sh", "-c", shown), capture_output=True, text=True, env=environ())
    assert done.stdout.splitlines() == [str(UID), HOST, "read-only", "writable", "/nonexistent"], done.stderr


@pytest.mark.parametrize(
    ("arguments", "codes"),
    [
        (("plan",), (0,)),
        (("plan", "--json"), (0,)),
        (("doctor",), (0, 1, 2)),
        (("models",), (0,)),
        (("version",), (0,)),
        (("status",), (1,)),
        (("health",), (1,)),
        (("cache", "show"), (0, 2)),
        (("support-bundle",), (2,)),  # it writes where it stands, and that can't be written
        (("support-bundle", "-o", "/run/bundle.tar.gz"), (0,)),
    ],
    ids=str,
)
def test_each_command_says_what_it_has_to_say(
    tmp_path: Path, arguments: tuple[str, ...], codes: tuple[int, ...]
) -> None:
    done = run(tmp_path, *arguments, DSV4_PROFILE="demo-cpu")
    assert done.returncode in codes, done.stderr[-2000:]
    assert "Traceback" not in done.stdout + done.stderr and "failed: " not in done.stdout
    assert done.stdout or done.stderr


def test_folders_without_a_home_are_below_run_and_tmp(tmp_path: Path) -> None:
    done = run(tmp_path, "plan", DSV4_PROFILE="demo-cpu")
    elsewhere = [line for line in done.stdout.splitlines() if "/nonexistent" in line and "HOME=" not in line]
    assert "/run/dsv4-pd/log" in done.stdout and not elsewhere


class Odd(Served):
    """`serve`'s foreground, supervisord, guard, front and stub servers there."""

    def serve(self, *options: str, **popen: object) -> None:
        command = entered(self.folder.parents[1], sys.executable, str(PROGRAM), str(self.folder), *options)
        self.process = subprocess.Popen(
            command, env=environ(), stdin=subprocess.DEVNULL, stdout=(self.folder / "console.log").open("ab"),
            stderr=subprocess.STDOUT, cwd="/",
        )  # fmt: skip


def test_serve_is_ready_recovers_and_stops_there(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    appliance = Odd(tmp_path / "kept/appliance", QUICK)
    for path in (tmp_path / "kept").rglob("*"):
        os.chown(path, UID, 0)
    try:
        appliance.serve()
        appliance.wait_state("READY")
        assert appliance.complete() == 200
        begun = appliance.starts("decode")
        appliance.kill("decode")
        appliance.wait(lambda: appliance.starts("decode") == begun + 1)
        appliance.wait_state("READY")
        assert Path(f"/proc/{appliance.pid('guard')}").stat().st_uid == UID
        assert appliance.process is not None
        appliance.process.terminate()
        assert appliance.finish() == 0
        assert "Traceback" not in appliance.said()
    finally:
        appliance.end()
