"""The guard under a real supervisord, over stub servers: the plain life of an appliance."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from guard.appliance import Appliance, running


def test_start_serve_stop(tmp_path: Path) -> None:
    with running(tmp_path) as appliance:
        appliance.wait_state("READY")
        assert appliance.get("/readyz")[0] == appliance.get("/livez")[0] == 200
        assert appliance.complete() == 200
        appliance.stop()
        verdict = appliance.wait_end(seconds=8)
        assert verdict["code"] == 0
        assert not appliance.leftovers()


@pytest.mark.slow
def test_a_card_on_which_nvml_hangs_is_lost_and_the_guard_sees_on_meanwhile(tmp_path: Path) -> None:
    """Two processes hang on it, 30 s each; the other card is still told."""
    appliance = Appliance(tmp_path)
    appliance.gpus(used=123_456_789)
    try:
        appliance.start()
        appliance.wait_state("READY")
        appliance.gpus(used=123_456_789, hang=["GPU-decode"])
        time.sleep(3)
        appliance.kill("decode")
        assert appliance.wait_state("RECOVERING") <= 5.0, "a probe every quarter of a second"
        assert appliance.get("/status")[1]["roles"]["prefill"]["gpu_memory"][0]["used_bytes"] == 123_456_789
        verdict = appliance.wait_end(seconds=150)
        assert (verdict["code"], "GPU GPU-decode is lost (NVML: NVML did not answer" in verdict["cause"]) == (70, True)
        assert appliance.starts("decode") == 1, "nothing is loaded on a lost card"
        assert not appliance.leftovers()
    finally:
        appliance.end()
