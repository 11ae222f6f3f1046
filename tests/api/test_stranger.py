"""The chaos fault "a stranger in the router's list": the real guard, both real routers, stand-ins for the servers.

Chaos runs it on the real pair; here it is shown that it finds what it is to find.
"""

from __future__ import annotations

import random
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
from chaos import stranger
from chaos.broken import Broken

from api.fronts import ROUTERS
from api.guarded import Guarded

pytestmark = pytest.mark.pair


@pytest.mark.parametrize("kind", ROUTERS)
def test_the_guard_puts_it_out_within_the_documented_bound(tmp_path: Path, kind: str) -> None:
    appliance = Guarded(tmp_path, kind)
    try:
        appliance.start()
        appliance.wait_state("READY")
        running = SimpleNamespace(root=tmp_path, api=f"http://127.0.0.1:{appliance.router}")
        print(stranger.add_stranger(running, random.Random(1)))  # type: ignore[arg-type]
        appliance.wait_state("READY", seconds=20)
        assert "told to forget http://127.0.0.1:" in (tmp_path / "run/log/guard.log").read_text()
    finally:
        appliance.end()


def test_a_guard_that_does_nothing_is_found(tmp_path: Path) -> None:
    appliance = Guarded(tmp_path, "sglang-router")
    try:
        appliance.start()
        appliance.wait_state("READY")
        appliance.kill("guard", signal.SIGSTOP)
        running = SimpleNamespace(root=tmp_path, api=f"http://127.0.0.1:{appliance.router}")
        with pytest.raises(Broken, match="still in the router's list"):
            stranger.add_stranger(running, random.Random(1))  # type: ignore[arg-type]
    finally:
        appliance.end()
