from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from dsv4_pd.run import health


def body(state: str, heartbeat: float = 100.0) -> str:
    return json.dumps({"state": state, "reason": "why", "heartbeat": heartbeat})


@pytest.mark.parametrize(
    ("state", "code"),
    [("READY", 0), ("DEGRADED", 0), ("DOWNLOADING", 1), ("BOOTING", 1), ("LOADING", 1), ("WARMING", 1),
     ("RECOVERING", 1), ("SAFE", 1), ("FAILED", 1), ("STOPPING", 1)],
)  # fmt: skip
def test_only_serving_states_are_healthy(state: str, code: int) -> None:
    assert health.judge(body(state), 101.0) == (code, f"{state}: why")


def test_a_guard_that_stopped_beating_is_unhealthy() -> None:
    code, line = health.judge(body("READY"), 200.0)
    assert code == 1 and "100 s old" in line and "READY" in line


def test_a_wall_clock_that_jumps_fools_nobody() -> None:
    text = json.dumps({**json.loads(body("READY")), "heartbeat_monotonic": 50.0})
    assert health.judge(text, 1e9, 51.0)[0] == 0
    assert health.judge(text, 100.0, 150.0)[0] == 1


def test_a_file_that_is_being_written_is_said() -> None:
    assert health.judge('{"state": "REA', 0.0) == (1, "the health file was being written; ask again")


def test_no_file_is_unhealthy() -> None:
    assert health.judge(None, 0.0)[0] == 1


def test_the_command_prints_the_reason_last_and_needs_no_library(tmp_path: Path) -> None:
    (tmp_path / "health.json").write_text(body("READY", heartbeat=4e9))
    probe = "import sys; from dsv4_pd.__main__ import main; sys.argv = sys.argv[1:]; code = main()\n"
    probe += "assert not {'pydantic', 'click', 'rich', 'aiohttp', 'asyncio'} & set(sys.modules); sys.exit(code)"
    done = subprocess.run([sys.executable, "-c", probe, "dsv4-pd", "health", str(tmp_path / "health.json")],
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert (done.returncode, done.stdout.splitlines()[-1], done.stderr) == (0, "READY: why", "")


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that everybody may write, as /tmp; the default run folder would lie in it."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    folder.chmod(0o1777)
    monkeypatch.setattr(health, "_default_files", lambda: [str(folder / "dsv4-pd-1/health.json")])
    return folder


def put(folder: Path, mode: int = 0o700) -> Path:
    """A health file of a live guard in a folder of that mode."""
    folder.mkdir(mode=0o700)
    (folder / "health.json").write_text(body("READY", heartbeat=4e9))
    folder.chmod(mode)
    return folder


def test_a_default_file_of_ours_is_believed(shared: Path) -> None:
    put(shared / "dsv4-pd-1")
    assert health.main([]) == 0


def _of_another_user(folder: Path) -> None:
    os.chown(put(folder), 12345, 12345)


def _a_link(folder: Path) -> None:
    folder.symlink_to(put(folder.parent.parent / "elsewhere"))


def _a_file_of_another_user(folder: Path) -> None:
    os.chown(put(folder, 0o777) / "health.json", 12345, 12345)


def _a_linked_file(folder: Path) -> None:
    target = put(folder.parent.parent / "elsewhere") / "health.json"
    (put(folder, 0o777) / "health.json").unlink()
    (folder / "health.json").symlink_to(target)


@pytest.mark.parametrize("plant", [_of_another_user, _a_link, _a_file_of_another_user, _a_linked_file])
def test_a_default_file_that_others_could_plant_is_not_believed(
    shared: Path, plant: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever makes /tmp/dsv4-pd-UID first must not tell a health check what to say."""
    if os.geteuid() and plant in (_of_another_user, _a_file_of_another_user):
        pytest.skip("gives a file away: needs root")
    plant(shared / "dsv4-pd-1")
    assert health.main([]) == 1
    said = capsys.readouterr()
    assert said.out == "not started: no health file\n" and "not believed: " in said.err
    assert health.main([str(shared / "dsv4-pd-1/health.json")]) == 0, "a file that was named is read as it is"
