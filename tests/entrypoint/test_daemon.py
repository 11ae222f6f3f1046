"""A real supervisord where there is no room left for what it writes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from dsv4_pd.plan.paths import Paths
from dsv4_pd.run.supervision import rpc
from dsv4_pd.run.supervision.daemon import Supervisord

CONFIG = """\
[supervisord]
nodaemon=true
silent=true
logfile={run}/log/supervisord.log
pidfile={run}/supervisord.pid
childlogdir={run}/log

[unix_http_server]
file={run}/supervisor.sock

[rpcinterface:supervisor]
supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface

[program:talker]
command={python} -uc "import time, itertools; [(print('x' * 999), time.sleep(0.001)) for _ in itertools.count()]"
redirect_stderr=true
stdout_logfile={run}/log/talker.log
stdout_logfile_maxbytes=100MB
"""


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Path]:
    """A run folder on a file system of its own."""
    folder = tmp_path / "run"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "full", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("may not mount a tmpfs here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.slow
def test_supervisord_outlives_a_full_run_folder(run: Path, tmp_path: Path) -> None:
    paths = Paths(run=run, state=tmp_path, cache=tmp_path, temp=tmp_path)
    paths.logs.mkdir()
    paths.supervisor_conf.write_text(CONFIG.format(run=run, python=sys.executable))
    daemon = Supervisord(paths, os.environ)
    daemon.start()
    try:
        deadline = time.monotonic() + 20
        while shutil.disk_usage(run).free and time.monotonic() < deadline:
            assert daemon.poll() is None
            time.sleep(0.05)
        assert not shutil.disk_usage(run).free, "the talker fills it"
        time.sleep(3)
        assert daemon.poll() is None, daemon.last_words
        assert rpc.connect(paths.supervisor_socket).getProcessInfo("talker")["statename"] == "RUNNING"
        assert "No space left" in daemon.last_words
    finally:
        daemon.end_hard()


def test_what_it_says_of_itself_is_kept(tmp_path: Path) -> None:
    (tmp_path / "run" / "log").mkdir(parents=True)
    paths = Paths(run=tmp_path / "run", state=tmp_path, cache=tmp_path, temp=tmp_path)
    daemon = Supervisord(paths, os.environ)
    daemon.start()  # with no configuration
    deadline = time.monotonic() + 20
    while (daemon.poll() is None or not daemon.last_words) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert "supervisord" in daemon.last_words
