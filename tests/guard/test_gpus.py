"""The guard's NVML against a real GPU: who holds memory is named, waited for, and seen to let go."""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from dsv4_pd.run.guard.senses.gpus import FREE_BYTES, Gpus
from guard.appliance import QUICK, Appliance
from support.machines import read_facts

HELD = 6 << 30
HOLD = f"""
import sys, torch
kept = torch.empty({HELD}, dtype=torch.uint8, device="cuda:0")
torch.cuda.synchronize()
print("held", flush=True)
sys.stdin.read()
"""
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="needs torch, to hold GPU memory"),
]


@pytest.fixture
def uuid() -> str:
    """The first card."""
    return read_facts().gpus[0].uuid


def read(uuid: str) -> Gpus:
    """One reading of a card."""
    gpus = Gpus([uuid])
    asyncio.run(gpus.read())
    gpus.end()
    return gpus


@contextmanager
def stranger() -> Iterator[subprocess.Popen[str]]:
    """A process that is not ours and holds GPU memory until it is ended."""
    process = subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout and process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def on_gpu(folder: Path, uuid: str, wait: float) -> Iterator[Appliance]:
    """Stub servers that are planned on a real card."""
    appliance = Appliance(folder, replace(QUICK, gpu_wait=wait))
    appliance.on_cards(prefill=uuid, decode=uuid)
    try:
        appliance.start()
        yield appliance
    finally:
        appliance.end()


def test_a_free_card_is_free_and_there(uuid: str) -> None:
    gpus = read(uuid)
    assert gpus.lost() is None
    assert gpus.holder([uuid]) is None
    (memory,) = gpus.memory([uuid])
    assert 0 <= int(memory["used_bytes"]) < FREE_BYTES < int(memory["total_bytes"])


def test_an_unknown_card_is_lost() -> None:
    nobody = "GPU-00000000-0000-4000-8000-00000000ffff"
    assert "is lost (NVML: Not Found: the driver has no card" in str(read(nobody).lost())


def test_who_holds_memory_is_named_until_it_lets_go(uuid: str) -> None:
    with stranger() as process:
        held = str(read(uuid).holder([uuid]))
        print(held)
        assert "GB still held by" in held
        assert str(process.pid) in held or "outside this container" in held, "a container may not see other PIDs"
    assert read(uuid).holder([uuid]) is None


def test_a_stranger_s_memory_keeps_the_servers_from_starting(tmp_path: Path, uuid: str) -> None:
    with stranger(), on_gpu(tmp_path, uuid, wait=3) as appliance:
        verdict = appliance.wait_end()
        assert (verdict["code"], "still held by" in verdict["cause"]) == (75, True), verdict
        assert appliance.starts("prefill") == appliance.starts("decode") == 0


def test_memory_that_is_released_in_time(tmp_path: Path, uuid: str) -> None:
    with stranger() as process, on_gpu(tmp_path, uuid, wait=60) as appliance:
        appliance.wait(lambda: "still held" in str(appliance.health().get("reason")))
        assert appliance.starts("decode") == 0
        process.kill()
        appliance.wait_state("READY")
        (memory,) = appliance.health()["roles"]["decode"]["gpu_memory"]
        assert memory["used_gb"] * 1e9 < FREE_BYTES
