"""Teacher forcing on the real engine, on the CPU: what a server gives for tokens that we choose is the model's own."""

from __future__ import annotations

import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.pair import COMMON, ENVIRONMENT, MODEL, START_SECONDS, VENVS
from support.ports import free_ports

pytestmark = pytest.mark.pair

TESTS = Path(__file__).resolve().parents[1]
PATHS = ":".join(map(str, (TESTS, TESTS / "gpu/engine", TESTS.parent)))
PYTHON = str(VENVS / "engine" / "bin" / "python")
ALONE = tuple(word for word in COMMON if word not in ("--disaggregation-transfer-backend", "nixl"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    folder = tmp_path_factory.mktemp("forced")
    (port,) = free_ports(1)
    more = ("--enable-custom-logit-processor", "--chunked-prefill-size", "256", "--port", str(port))
    command = ["setpriv", "--pdeathsig", "KILL", PYTHON, "-m", "sglang.launch_server", *ALONE, *more]
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": PATHS, **ENVIRONMENT}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log, start_new_session=True)
    try:
        wait(process, f"http://127.0.0.1:{port}/ready", folder / "log")
        yield f"http://127.0.0.1:{port}", folder
    finally:
        os.killpg(process.pid, 9)
        process.wait()


def wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text(errors="replace")[-2000:]
        try:
            with urllib.request.urlopen(url, timeout=3):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.3)
    raise TimeoutError(log.read_text(errors="replace")[-2000:])


def test_forced_tokens_give_the_model_s_own_distributions(server: tuple[str, Path]) -> None:
    url, folder = server
    env = {**os.environ, "PYTHONPATH": PATHS, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [PYTHON, "-Wignore", "-m", "gpu.forced_check", url, str(MODEL), str(folder)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert "3 requests" in done.stdout
