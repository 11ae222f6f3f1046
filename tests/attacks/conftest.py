"""One appliance for each router, for the whole folder: it must outlive everything that is done to it here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.appliance import Appliance

pytest.register_assert_rewrite("attacks.unharmed")  # its asserts are read in a test's report


@pytest.fixture(scope="package", params=["sglang-router", "smg"])
def appliance(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Appliance]:
    with Appliance(tmp_path_factory.mktemp("attacks"), {"DSV4_ROUTER": request.param}) as running:
        yield running
