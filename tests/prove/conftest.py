"""One real appliance for everything in this folder: started once, with a key, its start watched in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import missing
from dsv4_pd.client.api import Api
from dsv4_pd.client.ops import Ops
from dsv4_pd.verify.base import Local, Options, Subject
from support.appliance import Appliance

KEY = "a-key-of-the-tests"
ARTEFACTS = Path(__file__).resolve().parents[2] / ".artefacts"  # pictures that a person looks at


@pytest.fixture(scope="session")
def starting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    """The appliance while it starts."""
    if reason := missing("pair"):
        pytest.skip(reason)
    one = Appliance(tmp_path_factory.mktemp("prove"), {"DSV4_API_KEY": KEY})
    one.start()
    try:
        yield one
    finally:
        one.stop()


@pytest.fixture(scope="session")
def appliance(starting: Appliance) -> Appliance:
    """The appliance once it serves."""
    starting.wait_for("READY")
    return starting


@pytest.fixture(scope="session")
def key_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("key") / "key"
    path.write_text(KEY + "\n")
    return path


def subject(one: Appliance, api: str | None = None, ops: str | None = None, **options: object) -> Subject:
    """What the checks look at; `api` and `ops` put a proxy in front."""
    chosen = {"bursts": 1, "burst_size": 6, **options}
    return Subject(
        Api(api or one.api, "dsv4-demo", KEY, timeout=120),
        Ops(ops or one.ops),
        Options(**chosen),  # type: ignore[arg-type]
        Local(Path("/"), one.root / "run", one.root / "state"),
    )
