"""The chaos fault "a stranger in the router's list" before both real routers: what it passes, and what it finds.

Chaos runs it with the real guard; here the guard's own question and answer run in a loop, or do not.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from chaos import stranger
from chaos.broken import Broken
from dsv4_pd.settings.layout import parse

from api.administration import Router, Worker, router
from api.fronts import ROUTERS
from api.test_administration import repair

pytestmark = pytest.mark.pair


@pytest.fixture(params=ROUTERS)
def running(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Router]:
    folder = tmp_path / "run"
    folder.mkdir()
    with Worker("prefill") as prefill, Worker("decode") as decode:
        with router(folder, request.param, (prefill, decode), None) as started:
            yield started


def add(running: Router) -> str:
    root = running.plan.paths.run.parent
    return stranger.add_stranger(SimpleNamespace(root=root, router=running.url, layout=parse("pd")), random.Random(1))  # type: ignore[arg-type]


def test_one_that_is_put_out_in_time_passes(running: Router) -> None:
    over = threading.Event()

    def guard() -> None:
        while not over.wait(0.3):
            repair(running)

    thread = threading.Thread(target=guard)
    thread.start()
    try:
        assert add(running).startswith("a stranger in the router's list for ")
    finally:
        over.set()
        thread.join()


def test_one_that_stays_is_found(running: Router) -> None:
    with pytest.raises(Broken, match="still in the router's list after 5 s"):
        add(running)
