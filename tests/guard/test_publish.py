"""What the guard writes into the run folder."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from dsv4_pd.run.guard.decide.states import Verdict
from dsv4_pd.run.guard.tell import publish


def test_a_verdict_counts_only_under_the_same_supervisord(tmp_path: Path) -> None:
    path = tmp_path / "exit.json"
    publish.write_verdict(path, Verdict(70, "GPU lost"), ["last line"], owner=7)
    assert publish.read_verdict(path, owner=7) == Verdict(70, "GPU lost")
    assert publish.read_verdict(path, owner=8) is None
    assert json.loads(path.read_text())["lines"] == ["last line"]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a tmpfs: needs root")
def test_health_is_written_on_a_full_disk(tmp_path: Path) -> None:
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "full", tmp_path], check=False).returncode:
        pytest.skip("may not mount a tmpfs here")
    try:
        path = tmp_path / "health.json"
        assert publish.write_json(path, {"state": "READY", "reason": "x" * 200}) is None
        with pytest.raises(OSError, match="No space"), (tmp_path / "filler").open("wb") as filler:
            filler.write(b"\0" * 10**6)
        assert publish.write_json(path, {"state": "RECOVERING", "reason": "y" * 250}) is None
        assert publish.read_json(path)["state"] == "RECOVERING"
    finally:
        subprocess.run(["umount", "-l", tmp_path], check=True)
