"""Shared by all tests: a clean environment, what this machine can run, and a summary that says which rings ran."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
VENVS = Path(os.environ.get("TEST_VENVS", ROOT / ".venvs")).resolve()
RINGS = {
    "control": "ring 1, control plane",
    "engine": "ring 1, the engine's own argument resolution and plugins",
    "pair": "ring 1, real prefill/decode pair on the CPU",
    "docker": "ring 1, real Docker Engine",
    "browser": "ring 1, headless Chromium",
    "gpu": "ring 2, NVIDIA GPU",
}
ROUTERS = {"sglang-router", "smg"}
_ran: Counter[str] = Counter()
_skipped: dict[str, str] = {}


@pytest.fixture(autouse=True)
def clean_env(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of the person who runs the tests reaches a test."""
    for name in list(os.environ):
        if name.upper().startswith(("DSV4_", "SGLANG_", "UCX_", "NCCL_", "CUDA_")):
            monkeypatch.delenv(name)


def missing(ring: str) -> str | None:
    """Why this machine can't run a ring's tests; None when it can."""
    if ring in ("engine", "pair"):
        needed = [VENVS / "engine" / "bin" / "python"]
        needed += [VENVS / name / "bin" / "python" for name in ("smg", "router")] if ring == "pair" else []
        absent = [str(path) for path in needed if not path.exists()]
        return f"{absent[0]} does not exist: run `make engine`" if absent else None
    if ring == "browser" and not shutil.which("chromium"):
        return "no chromium: apt-get install chromium chromium-driver"
    if ring == "gpu" and not Path("/dev/nvidiactl").exists():
        return "no NVIDIA GPU"
    return None


def of_other_router(item: pytest.Item) -> bool:
    """Whether the test is one of a router that TEST_ROUTER leaves out: by its parameters, whatever holds them."""
    wanted = os.environ.get("TEST_ROUTER", "")
    named = str(dict(getattr(getattr(item, "callspec", None), "params", {}))) if wanted else ""
    return any(repr(router) in named for router in ROUTERS - {wanted}) and repr(wanted) not in named


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if wanted := os.environ.get("TEST_ROUTER", ""):
        if wanted not in ROUTERS:
            raise pytest.UsageError(f"TEST_ROUTER: found {wanted!r}, expected one of {sorted(ROUTERS)}")
        config.hook.pytest_deselected(items=[item for item in items if of_other_router(item)])
        items[:] = [item for item in items if not of_other_router(item)]
    for item in items:
        ring = next((ring for ring in RINGS if item.get_closest_marker(ring)), "control")
        # A report's keywords hold the names of folders too: tests/gpu is a folder, and most of it needs no card.
        item.user_properties.append(("ring", ring))
        for needed in RINGS:
            if item.get_closest_marker(needed) and (reason := missing(needed)):
                item.add_marker(pytest.mark.skip(reason=reason))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    ring = str(dict(report.user_properties).get("ring", "control"))
    if report.when == "call":
        _ran[ring] += 1
    elif report.skipped:
        _skipped.setdefault(ring, str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section("rings")
    for ring, text in RINGS.items():
        if _ran[ring]:
            terminalreporter.write_line(f"ran      {text}: {_ran[ring]} tests")
        elif ring in _skipped:
            terminalreporter.write_line(f"skipped  {text}: {_skipped[ring]}")
    terminalreporter.write_line(
        "not run  ring 3, RTX PRO 6000 (sm_120): no such card here; those figures are unmeasured"
    )
