from __future__ import annotations

import json
import subprocess
import sys
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
