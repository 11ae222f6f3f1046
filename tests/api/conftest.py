"""One appliance with a key for the whole folder, and a router of each kind before it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.appliance import Appliance

from api.client import KEY
from api.fronts import LINK_TIMEOUT_S, ROUTERS, front


@pytest.fixture(scope="package")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    with Appliance(
        tmp_path_factory.mktemp("api"), {"DSV4_API_KEY": KEY, "DSV4_LINK_TIMEOUT": f"{LINK_TIMEOUT_S}s"}
    ) as running:
        yield running


@pytest.fixture(scope="package")
def fronts(appliance: Appliance) -> Iterator[dict[str, int]]:
    """Ports: the appliance's own router, and the other kind beside it."""
    with front(appliance, "smg") as other:
        yield dict(zip(ROUTERS, (appliance.ports["DSV4_PORT"], other), strict=True))
