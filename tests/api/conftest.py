"""One appliance with a key for the whole folder, and a front with a router of each kind before its servers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.appliance import Appliance

from api.administration import CLIENT, Router, Worker, router
from api.client import KEY
from api.fronts import LINK_TIMEOUT_S, ROUTERS, front

Routed = tuple[Router, str | None]


@pytest.fixture(scope="package")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    with Appliance(
        tmp_path_factory.mktemp("api"), {"DSV4_API_KEY": KEY, "DSV4_LINK_TIMEOUT": f"{LINK_TIMEOUT_S}s"}
    ) as running:
        yield running


@pytest.fixture(scope="package")
def fronts(appliance: Appliance) -> Iterator[dict[str, int]]:
    """Ports: the appliance's own front, on the default router, and one with the other kind beside it."""
    with front(appliance, "sglang-router") as other:
        yield dict(zip(ROUTERS, (other, appliance.ports["DSV4_PORT"]), strict=True))


@pytest.fixture(scope="module", params=[(kind, key) for kind in ROUTERS for key in (None, CLIENT)],
                ids=lambda param: f"{param[0]}-{'key' if param[1] else 'open'}")  # fmt: skip
def routed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Routed]:
    """A router of each kind before two stand-ins, with a key for clients and without one."""
    kind, key = request.param
    with Worker("prefill", key) as prefill, Worker("decode", key) as decode:
        with router(tmp_path_factory.mktemp("router"), kind, (prefill, decode), key) as running:
            yield running, key
