"""The page over the real ops port, with documents that no CPU pair comes to: a download, and cards with their troubles.

The download's document is the publisher's own. The cards' is written here, in the names by which the metrics know the
same figures (`run/ops/own.py`); what it hides is whether a driver gives them.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from dsv4_pd.run.download.phase import Config, Publisher
from dsv4_pd.run.download.progress import Progress
from dsv4_pd.run.ops import own, server
from dsv4_pd.run.ops.exposition import render
from prove.conftest import ARTEFACTS
from support.browser import Browser
from support.ports import free_ports

pytestmark = pytest.mark.browser
SHOWN = {"version": "1", "mode": "pd", "profile": "p", "model": "dsv4-demo", "notices": []}
CARD = {
    "uuid": "GPU-0123456789ab-cdef", "used_gb": 80.0, "total_gb": 96.0, "used_bytes": 80 * 10**9,
    "total_bytes": 96 * 10**9, "power_w": 412.4,
    "power_limit_w": 600.0, "temperature_c": 71, "utilization": 0.93, "memory_utilization": 0.5,
    "pcie_tx_bytes_per_s": 1.5e9, "pcie_rx_bytes_per_s": 26e6, "ecc_uncorrected": 3, "rows_pending": 1,
    "rows_failed": 0, "xids": {"79": 1, "94": 2},
}  # fmt: skip
SILENT = {key: CARD[key] for key in ("used_gb", "total_gb", "used_bytes", "total_bytes")} | {"uuid": "GPU-ffffffffffff"}


class Told:
    """What the port shows: a publisher, or one document."""

    def __init__(self, folder: Path) -> None:
        self.progress = Progress()
        config = Config("org/m", None, str(folder), 60.0, str(folder / "health.json"), "", "127.0.0.1", 0, SHOWN, {})
        self.publisher = Publisher(config, self.progress)
        self.fixed: dict[str, Any] | None = None

    def document(self) -> dict[str, Any]:
        return self.fixed or self.publisher.document()


@contextmanager
def port_of(told: Told) -> Iterator[str]:
    port = free_ports(1)[0]
    loop = asyncio.new_event_loop()
    app = server.application(told.document, told.publisher, {})
    serving = loop.create_task(server.serve(app, "127.0.0.1", port))
    thread = threading.Thread(target=lambda: loop.run_until_complete(asyncio.wait({serving})), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        loop.call_soon_threadsafe(serving.cancel)
        thread.join(10)


def test_the_page_shows_how_far_the_model_is(tmp_path: Path) -> None:
    told = Told(tmp_path)
    with port_of(told) as ops, Browser(tmp_path / "b") as browser:
        browser.open(f"{ops}/")
        browser.wait("document.body.dataset.polls > 0")
        assert browser.run("document.getElementById('state').textContent") == "DOWNLOADING"
        assert browser.run("document.querySelectorAll('.bar i.unknown').length") == 1, "no size yet: no percentage"
        told.progress.enter("fetching")
        told.progress.expect(160 * 10**9, 30 * 10**9)
        told.progress.snapshot()
        time.sleep(1)
        told.progress.fetched(10 * 10**9)
        browser.wait("document.querySelector('.phase').textContent.includes('fetching 25 %')")
        row = browser.run("document.querySelector('.role').innerText")
        assert "model" in row and "40.00 GB of 160.00 GB" in row and "GB/s" in row and " left" in row, row
        assert browser.run("document.querySelector('.role .bar i').style.width") == "25%"
        assert browser.run("document.getElementById('now').hidden && document.getElementById('cards').hidden")
        assert "25.0 %, 40.0 of 160.0 GB" in browser.run("document.getElementById('reason').textContent")
        assert browser.errors() == [] and browser.foreign(ops) == []
        browser.picture(ARTEFACTS / "page-download.png")


def test_the_page_shows_how_each_card_is(tmp_path: Path) -> None:
    told = Told(tmp_path)
    roles = {
        "prefill": {"phase": "weights", "gpu_memory": [CARD]},
        "decode": {"phase": "ready", "gpu_memory": [SILENT]},
    }
    told.fixed = told.publisher.document() | {"state": "LOADING", "roles": roles, "download": None}
    metrics = render(own.families(told.fixed, {}, {}))
    for line in ("dsv4_gpu_power_watts", "dsv4_gpu_pcie_bytes_per_second", "dsv4_gpu_xid_errors_total",
                 "dsv4_gpu_ecc_uncorrected_errors", "dsv4_gpu_rows_remap_pending"):  # fmt: skip
        assert f"\n{line}{{" in metrics, f"{line}: the names are not the document's"
    with port_of(told) as ops, Browser(tmp_path / "b") as browser:
        browser.open(f"{ops}/")
        browser.wait("document.body.dataset.polls > 0")
        assert not browser.run("document.getElementById('cards').hidden")
        first, second = browser.run("[...document.querySelectorAll('#memory .detail')].map((e) => e.textContent)")
        assert first == (
            "412 of 600 W · 71 °C · busy 93 % · PCIe 26 MB/s in, 1.50 GB/s out · 3 uncorrected ECC errors · "
            "reset to remap a memory row · Xid 79 ×1 · Xid 94 ×2"
        )
        assert second == "", "what a card does not tell is not made up"
        assert browser.run("document.querySelector('#memory span').textContent") == "prefill GPU-01234567"
        assert browser.errors() == []
        failed = CARD | {"rows_failed": 1}
        told.fixed = told.fixed | {"roles": {"prefill": {"phase": "weights", "gpu_memory": [failed]}}}
        browser.wait("document.getElementById('memory').innerText.includes('could not be remapped')")
