"""The page while the real appliance starts. First in this folder, because there is one start to watch."""

from __future__ import annotations

from pathlib import Path

import pytest
from prove.conftest import ARTEFACTS
from support.appliance import Appliance
from support.browser import Browser

pytestmark = [pytest.mark.pair, pytest.mark.browser]


def test_page_shows_the_start_and_then_the_load(starting: Appliance, tmp_path: Path) -> None:
    starting.wait_until(lambda: bool(starting.state() != "none"), "health file")
    with Browser(tmp_path) as browser:
        browser.open(f"{starting.ops}/")
        browser.wait("document.body.dataset.polls > 1")
        assert browser.run("document.getElementById('state').textContent") in ("BOOTING", "LOADING", "WARMING")
        assert browser.run("document.getElementById('now').hidden"), "no charts before there is a load"
        assert browser.run("document.querySelectorAll('.role').length") == 4
        assert browser.run("document.querySelectorAll('.bar i.unknown').length") >= 1, (
            "no bar moves without a percentage"
        )
        browser.picture(ARTEFACTS / "page-start.png")
        browser.wait("document.getElementById('state').textContent == 'READY'", seconds=420)
        browser.wait("!document.getElementById('now').hidden && document.querySelectorAll('.charts svg').length == 4")
