"""docker/engine-on-debian.sh with every program that it would start replaced."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "docker/engine-on-debian.sh"
# What the daemon holds open, as it sees it; `docker info` fails until it has written that down.
DAEMON = '#!/bin/sh\nfor each in /proc/$$/fd/*; do readlink "$each"; done > "$0.held.new"\nmv "$0.held.new" "$0.held"\n'
CLIENT = '#!/bin/sh\n[ "$1" != info ] || [ -e "$(dirname "$0")/../sbin/dockerd.held" ]\n'


def program(path: Path, text: str = "#!/bin/sh\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.mark.skipif(os.geteuid() != 0, reason="the script starts a daemon for root alone")
def test_the_daemon_holds_nothing_of_its_caller_open(tmp_path: Path) -> None:
    """A lock that the caller holds on a descriptor ends with the caller, not with the daemon."""
    user = tmp_path / "unpacked/usr"
    program(user / "sbin/dockerd", DAEMON)
    program(user / "bin/docker", CLIENT)
    for name in ("bin/docker-registry", "bin/dpkg", "bin/ln", "libexec/docker/cli-plugins/docker-compose",
                 "libexec/docker/cli-plugins/docker-buildx", "libexec/podman/quadlet"):  # fmt: skip
        program(user / name)
    read, write = os.pipe()
    environ = {**os.environ, "DOCKER_ENGINE_ROOT": str(tmp_path), "HOME": str(tmp_path)}
    with (tmp_path / "lock").open("w") as lock:
        held = (lock.fileno(), read, write)
        done = subprocess.run([SCRIPT, "start"], env=environ, pass_fds=held, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
    deadline = time.monotonic() + 5
    while not (found := user / "sbin/dockerd.held").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    opened = found.read_text().split("\n")
    assert not [item for item in opened if item == str(tmp_path / "lock") or item.startswith("pipe:")], opened
    assert str(tmp_path / "dockerd.log") in opened and "/dev/null" in opened
