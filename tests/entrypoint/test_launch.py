"""The launcher: the key reaches the module and never /proc."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from dsv4_pd.run.supervision import launch

MODULE = """
import sys, pathlib
from multiprocessing import get_context
def child():
    print("child", sys.argv)
if __name__ == "__main__":
    print(repr(sys.argv))
    print(pathlib.Path("/proc/self/cmdline").read_bytes().replace(b"\\0", b" ").decode())
    worker = get_context("spawn").Process(target=child)
    worker.start(); worker.join()
    sys.exit(worker.exitcode)
"""


@pytest.mark.parametrize("key", ["plain-key-1", "-dash $'\"% ü"])
def test_key_from_file(tmp_path: Path, key: str) -> None:
    (tmp_path / "a_server.py").write_text(MODULE)
    (tmp_path / "k").write_text(key)
    argv = [sys.executable, launch.__file__, "a_server", "--api-key-file", str(tmp_path / "k"), "--", "--port", "1"]
    done = subprocess.run(argv, capture_output=True, text=True, env={"PYTHONPATH": str(tmp_path)}, check=False)
    assert done.returncode == 0, done.stderr
    seen, cmdline, child = done.stdout.splitlines()
    assert repr(f"--api-key={key}") in seen and "'--port', '1'" in seen
    assert key not in cmdline
    assert child.startswith("child")  # a spawned worker finds the module, not the launcher


def test_the_key_to_the_routers_administration(tmp_path: Path) -> None:
    (tmp_path / "a_router.py").write_text(MODULE)
    (tmp_path / "client").write_text("for-clients")
    (tmp_path / "guard").write_text("-for:the:guard")
    files = ["--api-key-file", str(tmp_path / "client"), "--control-key-file", str(tmp_path / "guard")]
    argv = [sys.executable, launch.__file__, "a_router", *files, "--", "--port", "1"]
    done = subprocess.run(argv, capture_output=True, text=True, env={"PYTHONPATH": str(tmp_path)}, check=False)
    assert done.returncode == 0, done.stderr
    seen, cmdline, _ = done.stdout.splitlines()
    assert repr("--control-plane-api-keys=guard:guard:admin:-for:the:guard") in seen
    assert repr("--api-key=for-clients") in seen
    assert "for-clients" not in cmdline and "for:the:guard" not in cmdline


def test_without_a_key(tmp_path: Path) -> None:
    (tmp_path / "a_server.py").write_text(MODULE)
    done = subprocess.run([sys.executable, launch.__file__, "a_server", "--", "--port", "1"], capture_output=True,
                          text=True, env={"PYTHONPATH": str(tmp_path)}, check=False)  # fmt: skip
    assert done.returncode == 0 and "api-key" not in done.stdout
