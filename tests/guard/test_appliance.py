"""The guard under a real supervisord, over stub servers: the plain life of an appliance."""

from __future__ import annotations

from pathlib import Path

from tests.guard.appliance import running


def test_start_serve_stop(tmp_path: Path) -> None:
    with running(tmp_path) as appliance:
        appliance.wait_state("READY")
        assert appliance.get("/readyz")[0] == appliance.get("/livez")[0] == 200
        assert appliance.complete() == 200
        appliance.stop()
        verdict = appliance.wait_end(seconds=8)
        assert verdict["code"] == 0
        assert not appliance.leftovers()
