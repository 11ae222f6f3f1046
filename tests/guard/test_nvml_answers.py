"""The guard's reading of NVML, with a library that answers on order in the place of the driver's."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dsv4_pd.run.guard.senses.gpus import Gpus


@pytest.fixture
def nvml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Says what NVML answers from now on, in the reader's own process."""
    shutil.copy(Path(__file__).with_name("fake_nvml") / "pynvml.py", tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def now(**state: Any) -> None:
        (tmp_path / "nvml.new").write_text(json.dumps({"used": 0, **state}))
        (tmp_path / "nvml.new").replace(tmp_path / "nvml.json")

    now()
    return now


async def test_a_lost_gpu_in_nvmls_words(nvml: Callable[..., None]) -> None:
    gpus = Gpus(["GPU-1", "GPU-2"])
    await gpus.read()
    assert gpus.lost() is None
    nvml(errors={"GPU-2": "GPU is lost"}, used=7)
    await gpus.read()
    assert "GPU GPU-2 is lost (NVML: GPU is lost: the card fell off" in str(gpus.lost())
    assert [card["uuid"] for card in gpus.memory(["GPU-1", "GPU-2"])] == ["GPU-1"], "the other is still told"
    nvml(errors={"GPU-1": "Unknown Error", "GPU-2": "GPU is lost"}, used=7)
    await gpus.read()
    said = str(gpus.lost())
    assert "GPU GPU-1 is lost" in said and "GPU GPU-2 is lost" in said, "one fault hides no other"
    nvml(errors={"GPU-1": "Not Found", "GPU-2": "Not Found"}, used=7)
    await gpus.read()
    assert "GPU GPU-1, GPU-2 are lost (NVML: Not Found: the driver has no card" in str(gpus.lost())
    gpus.end()
    nobody = Gpus([])
    await nobody.read()
    assert nobody.lost() is None, "no GPU in the plan, none to lose"


@pytest.mark.parametrize(("inside", "remedy"), [(True, "re-create the container"), (False, "where nvidia-smi on the")])
async def test_the_remedy_for_a_lost_gpu_is_of_where_we_run(
    nvml: Callable[..., None], inside: bool, remedy: str
) -> None:
    gpus = Gpus(["GPU-1"], in_container=inside)
    nvml(error="Unknown Error", used=7)
    await gpus.read()
    assert remedy in str(gpus.lost())
    gpus.end()


async def test_each_card_is_asked_once_and_bytes_stay_bytes(nvml: Callable[..., None], tmp_path: Path) -> None:
    gpus = Gpus([f"GPU-{number}" for number in range(8)])
    nvml(used=123_456_789)
    await gpus.read()
    assert (tmp_path / "calls").read_text().split() == [f"GPU-{number}" for number in range(8)]
    (card,) = gpus.memory(["GPU-3"])
    assert (card["used_bytes"], card["total_bytes"]) == (123_456_789, 97_887 * 2**20)
    gpus.end()


async def test_errors_of_cards_are_counted_and_the_broken_one_is_told(nvml: Callable[..., None]) -> None:
    gpus = Gpus(["GPU-1", "GPU-2"])
    nvml(xids=[["GPU-1", 31], ["GPU-1", 31]])
    await gpus.read()
    assert gpus.memory(["GPU-1"])[0]["xids"] == {"31": 2} and "xids" not in gpus.memory(["GPU-2"])[0]
    assert gpus.broken(["GPU-1", "GPU-2"]) == "", "a process did that, and a new one may do better"
    assert "Xid 31" in gpus.errors.last(["GPU-1"])[1] and gpus.errors.last(["GPU-2"]) == (0.0, "")
    nvml(xids=[["GPU-2", 119]])
    await gpus.read()
    await gpus.read()
    assert gpus.memory(["GPU-2"])[0]["xids"] == {"119": 1}
    assert gpus.broken(["GPU-1"]) == "" and "does not answer; reset the card" in gpus.broken(["GPU-2"])
    assert gpus.lost() is None
    gpus.end()


async def test_a_memory_row_without_a_spare_is_a_fault_of_the_card(nvml: Callable[..., None]) -> None:
    """Xid 64 was told to whoever watched then; NVML says it for as long as it is so."""
    gpus = Gpus(["GPU-1", "GPU-2"])
    nvml(rows_failed=["GPU-2"])
    await gpus.read()
    assert gpus.broken(["GPU-1"]) == "" and "a memory row could not be remapped" in gpus.broken(["GPU-1", "GPU-2"])
    assert gpus.memory(["GPU-2"])[0]["rows_failed"] == 1 and gpus.lost() is None
    nvml(rows_failed=[])
    await gpus.read()
    assert gpus.broken(["GPU-2"]) == "", "after a reset it has one"
    gpus.end()


async def test_a_call_that_hangs_is_a_lost_card_and_not_a_hang(nvml: Callable[..., None]) -> None:
    gpus = Gpus(["GPU-1", "GPU-2"], deadline=2.0)
    await gpus.read()
    nvml(hang=["GPU-2"])
    await asyncio.wait_for(gpus.read(), 30)
    assert "GPU GPU-2 is lost (NVML: NVML did not answer within 2 s: a call into the driver" in str(gpus.lost())
    gpus.end()


async def test_a_reader_that_was_killed_or_stopped_says_nothing_of_the_cards(nvml: Callable[..., None]) -> None:
    gpus = Gpus(["GPU-1"], deadline=2.0)
    for number in (signal.SIGKILL, signal.SIGSTOP):
        await gpus.read()
        assert gpus._reader
        os.kill(gpus._reader._process.pid, number)
        await asyncio.wait_for(gpus.read(), 30)
        assert gpus.lost() is None
        assert gpus.memory(["GPU-1"])
    gpus.end()


async def test_who_holds_the_memory(nvml: Callable[..., None]) -> None:
    gpus = Gpus(["GPU-1"])
    for used, pids, words in (
        (500 * 2**20, [], None),
        (40 * 10**9, [42], "process 42"),
        (40 * 10**9, [], "outside this"),
    ):
        nvml(used=used, pids=pids)
        await gpus.read()
        assert (words in str(gpus.holder(["GPU-1"]))) if words else gpus.holder(["GPU-1"]) is None
    gpus.end()
