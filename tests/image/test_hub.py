"""`docker compose up` with the model on a Hub only: it arrives through an interruption, and is served.

The Hub is the stub, a process of this host (tests/support/hub.py says what it hides); the container reaches it by a
name that leads to the host. All else is as an operator has it: the demo's profile, a volume for the cache, another
name of a model.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from support.containers import ROOT, START_S, Stack, chat, new_stack, wait_for
from support.docker_sdk import Image
from support.hub import COMMIT, Hub, of_folder, running

pytestmark = [pytest.mark.docker, pytest.mark.slow]
KEY = "k3y-of-the-hub-test"
MODEL, HOST = "org/demo", "hub.test"
SECONDS = 60.0  # that the whole download takes: time for an interruption in the middle


@pytest.fixture
def hub() -> Iterator[Hub]:
    with running(Hub(MODEL, of_folder(ROOT / "demo" / "model")), bind="0.0.0.0", host=HOST) as stub:
        yield stub


def override(hub: Hub, path: Path) -> str:
    """What an operator would write beside compose.yaml; the demo's own file has no cache of the Hub's."""
    service = {
        "extra_hosts": [f"{HOST}:host-gateway"],
        "environment": {"DSV4_MODEL": MODEL, "HF_ENDPOINT": hub.url, "HF_HOME": "/var/lib/huggingface",
                        "HF_HUB_DOWNLOAD_TIMEOUT": "10"},
        "volumes": ["huggingface:/var/lib/huggingface"],
    }  # fmt: skip
    path.write_text(yaml.safe_dump({"services": {"demo": service}}), encoding="utf-8")
    return str(path)


@pytest.fixture
def stack(hub: Hub, image: Image, image_name: str, tmp_path: Path) -> Iterator[Stack]:
    files = ("compose.yaml", override(hub, tmp_path / "override.yaml"))
    stack = new_stack(f"dsv4-hub-{os.getpid()}", image_name, tmp_path / "api_key", KEY, files)
    try:
        yield stack
    finally:
        stack.compose("down", "-v", "-t", "60")


def percent(stack: Stack) -> float:
    """How far the download is; -1 while nobody says."""
    status = stack.status()
    found = (status.get("download") or {}).get("percent")
    return -1.0 if status.get("state") != "DOWNLOADING" or found is None else float(found)


def test_a_model_on_the_hub_alone_arrives_through_a_restart_and_is_served(stack: Stack, hub: Hub) -> None:
    large = sum(len(data) for name, data in hub.files.items() if hub.is_large(name))
    hub.faults.bytes_per_s = large / SECONDS
    stack.compose("up", "-d", "--no-build")
    wait_for("a third of the model", lambda: percent(stack) > 33, START_S, 0.2)
    before = hub.sent
    assert large / 4 < before < large * 0.9, "the restart is in the middle of the download"
    stack.compose("restart", "demo")
    wait_for("the download to go on", lambda: percent(stack) > 33 or hub.sent >= large, START_S, 0.2)
    hub.faults.bytes_per_s = None
    stack.watch()
    assert hub.sent < large * 1.2, "what was there is not fetched again"
    states = {status.get("state") for health, status in stack.seen if health != "healthy"}
    assert states & {"DOWNLOADING", "BOOTING", "LOADING", "WARMING"} and "FAILED" not in states
    assert stack.status()["about"]["weights"]["commit"] == COMMIT
    status, text = chat(stack.api, KEY)
    assert (status, bool(text)) == (200, True), text
    assert stack.container().attrs["RestartCount"] == 0, "it never ended by itself"
