"""From an empty cache to serving: the real appliance, its model on a slow Hub only, interrupted, stopped and killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT
from support.appliance import Appliance
from support.hub import Hub, of_folder, running

pytestmark = [pytest.mark.pair, pytest.mark.slow]
MODEL = "org/demo"
# Of the guard, which watches no download: the download takes longer. A start on two idle cores is never that silent.
STALL_S = float(os.environ.get("TEST_STALL_S", "60"))


@pytest.fixture
def hub() -> Iterator[Hub]:
    with running(Hub(MODEL, of_folder(ROOT / "demo" / "model"))) as stub:
        yield stub


def new_appliance(root: Path, hub: Hub) -> Appliance:
    return Appliance(root, {
        "DSV4_MODEL": MODEL, "HF_ENDPOINT": hub.url, "HF_HOME": str(root / "hf"), "HF_HUB_DOWNLOAD_TIMEOUT": "5",
        "DSV4_STALL_TIMEOUT": f"{STALL_S:.0f}s",
    })  # fmt: skip


def downloading(appliance: Appliance, least_percent: float) -> None:
    def percent() -> float:
        return (appliance.health().get("download") or {}).get("percent") or 0.0

    appliance.wait_until(lambda: percent() > least_percent, f"{least_percent} %", 120)


def downloader(appliance: Appliance) -> int:
    """The process that fetches."""
    for pid in appliance.pids():
        if b"download-phase" in Path(f"/proc/{pid}/cmdline").read_bytes():
            return pid
    raise AssertionError("nobody downloads")


def test_an_empty_host_serves_after_every_interruption(hub: Hub, tmp_path: Path) -> None:
    appliance = new_appliance(tmp_path, hub)
    large = sum(len(data) for name, data in hub.files.items() if hub.is_large(name))
    hub.faults.bytes_per_s = large / (STALL_S * 1.2)
    hub.faults.cut_after = [large // 20]
    appliance.start()
    try:
        begun = time.monotonic()
        appliance.wait_for("DOWNLOADING", timeout=240)
        the_ops_port_tells_it(appliance)
        assert appliance.stop() == 0, "a stop in the middle is no failure"
        assert appliance.leftovers() == []
        first = hub.sent
        appliance.start()
        downloading(appliance, 100 * first / large)
        os.kill(downloader(appliance), signal.SIGKILL)
        appliance.wait_until(lambda: "it is restarted" in appliance.log.read_text(), "a word of it", 120)
        appliance.wait_until(lambda: appliance.state() not in ("none", "DOWNLOADING"), "the model", 300)
        fetched = time.monotonic() - begun
        appliance.wait_for("READY")
        ready = time.monotonic() - begun
        print(f"fetched in {fetched:.0f} s, READY after {ready:.0f} s; sent {hub.sent / large:.2f} of its bytes")
        assert fetched > STALL_S
        assert hub.sent < large * 1.2, "what was there is not fetched again"
        assert appliance.chat("What is the capital of Italy?")["content"] == "The capital of Italy is Rome."
        status, document = appliance.call("/status", base=appliance.ops)
        assert status == 200 and document["about"]["weights"]["commit"] == "1" * 40
        asked = len(hub.seen)
    finally:
        appliance.stop()
    assert appliance.leftovers() == []
    appliance.start()  # whole now: the Hub is not asked again
    try:
        appliance.wait_until(lambda: appliance.state() in ("BOOTING", "LOADING"), "a start without a download", 120)
        assert len(hub.seen) == asked
    finally:
        appliance.stop()


def the_ops_port_tells_it(appliance: Appliance) -> None:
    appliance.wait_until(lambda: " left" in appliance.health().get("reason", ""), "a rate", 120)
    status, document = appliance.call("/status", base=appliance.ops)
    assert status == 200 and document["state"] == "DOWNLOADING" and document["serving"] is False
    found = document["download"]
    assert found["total_bytes"] > found["done_bytes"] > 0 and 0 < found["percent"] < 100
    assert "fetching the model: " in document["reason"] and " left" in document["reason"]
    assert appliance.call("/readyz", base=appliance.ops)[0] == 503
    assert appliance.call("/livez", base=appliance.ops)[0] == 200
    _, metrics = appliance.call("/metrics", base=appliance.ops)
    assert 'dsv4_state{state="DOWNLOADING"} 1' in metrics and "dsv4_download_done_bytes" in metrics
    assert appliance.call("/", base=appliance.ops)[0] == 200
    health = subprocess.run([sys.executable, "-m", "dsv4_pd", "health"], env=appliance.environ, capture_output=True,
                            text=True)  # fmt: skip
    assert health.returncode == 1 and health.stdout.startswith("DOWNLOADING: ")
