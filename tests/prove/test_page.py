"""The page and the report in a browser, over the real appliance."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from dsv4_pd.client.api import Api
from prove.conftest import ARTEFACTS, KEY
from support.appliance import Appliance
from support.browser import Browser

pytestmark = [pytest.mark.pair, pytest.mark.browser]


def talk(appliance: Appliance) -> None:
    api = Api(appliance.api, "dsv4-demo", KEY)
    for _ in range(3):
        api.complete("Once there were two servers in one box", max_tokens=400, ignore_eos=True)


def test_page_shows_the_load(appliance: Appliance, tmp_path: Path) -> None:
    talking = [threading.Thread(target=talk, args=(appliance,)) for _ in range(3)]
    with Browser(tmp_path) as browser:
        browser.open(f"{appliance.ops}/")
        for one in talking:
            one.start()
        tokens = "parseFloat(document.querySelector('#tiles .tile b').textContent)"
        browser.wait(f"document.querySelectorAll('#tiles .tile').length >= 8 && {tokens} > 0", seconds=60)
        browser.wait("document.querySelector('.charts path').getAttribute('d').split('L').length > 5", seconds=60)
        browser.picture(ARTEFACTS / "page-load.png")
        assert browser.foreign(appliance.ops) == []
        assert browser.errors() == []
        browser.resize(390, 844)
        browser.wait("document.body.dataset.polls > 8")
        assert browser.run("document.documentElement.scrollWidth") <= 390, "wider than a phone"
        browser.picture(ARTEFACTS / "page-phone.png")
        for one in talking:
            one.join()


def test_interference_and_its_report(appliance: Appliance, key_file: Path, tmp_path: Path) -> None:
    where = ["--url", appliance.ops, "--api-url", appliance.api]
    key = ["--api-key-file", str(key_file)]
    size = ["--streams", "2", "--stream-output", "2000", "--prompts", "2", "--prompt-tokens", "2500", "--quiet", "1"]
    command = [sys.executable, "-m", "dsv4_pd", "bench", "interference", *where, *key, *size]
    command += ["--out", str(tmp_path / "run.jsonl")]
    done = subprocess.run(command, capture_output=True, text=True, env=appliance.environ, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    head, point = (json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()[:2])
    assert head["appliance"]["machine"]["cpus"] and point["failed"] == 0
    assert point["prompts"]["read"] >= 1 and point["quiet"]["tokens"] > 50 and point["busy"]["tokens"] > 0
    with Browser(tmp_path) as browser:
        page = (tmp_path / "run.html").resolve().as_uri()
        browser.open(page)
        assert browser.run("document.querySelectorAll('svg rect.span').length") >= 2
        assert browser.run("document.querySelectorAll('svg circle').length") == len(point["gaps"])
        assert browser.run("document.documentElement.scrollWidth") <= 1100
        assert "token rate left" in browser.text() and browser.errors() == [] and browser.foreign("file:") == []
        browser.picture(ARTEFACTS / "report-interference.png")
