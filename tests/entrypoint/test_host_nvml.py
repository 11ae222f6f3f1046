"""host.nvml: the real pynvml against a library that answers like a driver, in full and in part."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from dsv4_pd.doctor.base import CheckVerdict
from dsv4_pd.doctor.checks.driver import gpu_visible
from dsv4_pd.host import machine, nvml_reader
from dsv4_pd.host.facts import LostGpu
from dsv4_pd.host.read import facts_of
from dsv4_pd.settings.schema import Settings

SOURCE = Path(__file__).parent / "data" / "nvml_stub.c"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("nvml")
    command = [compiler, "-shared", "-fPIC", "-w", "-o", str(folder / "libnvidia-ml.so.1"), str(SOURCE)]
    subprocess.run(command, check=True)
    return folder


def ask(library: Path, **env: str) -> dict[str, Any]:
    environ = {**os.environ, "LD_LIBRARY_PATH": str(library), **env}
    command = [sys.executable, "-m", "dsv4_pd.host.nvml"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    answers: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answers


def test_card_that_answers_everything(library: Path) -> None:
    answers = ask(library)
    assert (answers["error"], answers["driver_version"], answers["cuda_version"]) == (None, "580.95.05", 13000)
    assert answers["gpus"][0] == {
        "index": 0, "uuid": "GPU-1", "name": "Card 1", "pci_bus_id": "00000000:C1:00.0",
        "compute_capability": [12, 0], "memory_total": 97887 << 20, "memory_used": 5 << 20, "mig": True, "ecc": True,
        "persistence": True, "display": False, "pcie_generation": 1, "pcie_width": 8, "pcie_max_generation": 4,
        "pcie_card_generation": 5, "pcie_max_width": 16, "nvlinks": 3,
        "processes": [{"pid": 77, "memory": None}, {"pid": 4242, "memory": 1 << 30}],
    }  # fmt: skip


def test_card_that_answers_little_does_not_hide_the_other(library: Path) -> None:
    card = ask(library)["gpus"][1]
    assert (card["memory_total"], card["memory_used"]) == (32 << 30, 2 << 30)
    assert {card[name] for name in ("mig", "ecc", "persistence", "pcie_width")} == {None}
    assert card["processes"] == [] and card["nvlinks"] == 0


def test_peer_access_says_the_first_reason_against_it(library: Path) -> None:
    assert ask(library)["peer_access"] == [["-", "chipset not supported"], ["chipset not supported", "-"]]


def test_lost_gpus_are_nvml_s_own_words(library: Path) -> None:
    assert ask(library, NVML_STUB="unknown") == {"error": "Unknown Error", "error_code": 999, "gpus": []}


def test_no_library_is_said(tmp_path: Path) -> None:
    if shutil.which("nvidia-smi"):
        pytest.skip("there is a driver")
    assert "Not Found" in ask(tmp_path)["error"]


def test_facts_are_in_bus_order_and_indexes_stay_the_driver_s(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = ask(library)
    live = machine.Live()
    monkeypatch.setattr(live, "nvml", lambda: answers)
    facts = facts_of(live)
    assert [(gpu.index, gpu.pci_bus_id) for gpu in facts.gpus] == [(1, "0000:01:00.0"), (0, "0000:c1:00.0")]
    assert facts.cuda_version == (13, 0) and facts.gpu_error is None
    assert facts.gpus[1].link.slot_generation == 4 and facts.gpus[1].link.max_generation == 5


def test_a_lost_card_does_not_hide_the_other(library: Path) -> None:
    for how in ("NVML_LOST", "NVML_LOST_LATE"):
        answers = ask(library, **{how: "0"})
        assert [(card["index"], card["uuid"]) for card in answers["gpus"]] == [(1, "GPU-2")], how
        assert answers["error"] is None
        assert answers["lost"] == [{"index": 0, "error": "GPU is lost", "error_code": 15}]
        assert answers["peer_access"] == [["-"]]


def test_a_lost_card_is_said_in_facts_and_by_the_doctor(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live = machine.Live()
    monkeypatch.setattr(live, "nvml", lambda: ask(library, NVML_LOST="1"))
    facts = facts_of(live)
    assert [gpu.uuid for gpu in facts.gpus] == ["GPU-1"] and facts.gpu_error is None
    assert facts.lost_gpus == (LostGpu(1, "GPU is lost", 15),)
    for choice, verdict in (("refuse", CheckVerdict.FAIL), ("ignore", CheckVerdict.WARN)):
        situation = SimpleNamespace(facts=facts, settings=Settings(lost_gpus=choice))
        found = gpu_visible.CHECK.run(situation)  # type: ignore[arg-type]
        assert found.verdict is verdict and "GPU 1: GPU is lost" in found.read


def test_a_card_that_hangs_is_lost_and_the_other_is_told(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
    monkeypatch.setenv("NVML_HANG", "0")
    answers = nvml_reader.query(seconds=3.0)
    assert [card["uuid"] for card in answers["gpus"]] == ["GPU-2"]
    assert answers["lost"] == [{"index": 0, "error": "NVML did not answer within 3 s"}]


def test_readings_of_the_planned_cards(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the guard asks again and again: one process, bytes, a card by its UUID."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
    reader = nvml_reader.Reader(("--watch", "GPU-1", "GPU-2", "GPU-9"))
    try:
        for _ in range(2):
            cards = reader.ask(30.0)["cards"]
            assert {uuid: {k: v for k, v in card.items() if k != "health"} for uuid, card in cards.items()} == {
                "GPU-1": {"used": 5 << 20, "total": 97887 << 20, "pids": [77, 4242]},
                "GPU-2": {"used": 2 << 30, "total": 32 << 30, "pids": []},
                "GPU-9": {"error": "Not Found", "error_code": 6},
            }
    finally:
        reader.close()


def test_a_reading_that_hangs_names_the_card(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
    monkeypatch.setenv("NVML_HANG", "1")
    reader = nvml_reader.Reader(("--watch", "GPU-1", "GPU-2"))
    try:
        with pytest.raises(nvml_reader.Silent) as caught:
            reader.ask(3.0)
        assert caught.value.asking == "GPU-2" and not caught.value.stopped
    finally:
        reader.close()


def fake_python(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(path))


def test_reader_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_python(tmp_path, "exec sleep 60", monkeypatch)
    assert nvml_reader.query(0.3)["error"] == "NVML did not answer within 0 s"


def test_reader_that_dies_is_explained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_python(tmp_path, "echo 'Segmentation fault' >&2\nexit 139", monkeypatch)
    assert nvml_reader.query(10.0) == {"error": "the NVML reader ended with 139: Segmentation fault", "gpus": []}


def test_what_a_library_prints_is_no_answer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    answer = json.dumps({"error": None, "gpus": []})
    fake_python(tmp_path, f"echo '{{not json'; echo '[1]'; echo '{answer}'", monkeypatch)
    assert nvml_reader.query(10.0) == {"error": None, "gpus": []}


def watched(library: Path, uuids: list[str], looks: int = 1, **env: str) -> list[dict[str, Any]]:
    """What the guard's reader tells, one message a look."""
    environ = {**os.environ, "LD_LIBRARY_PATH": str(library), **env}
    command = [sys.executable, "-m", "dsv4_pd.host.nvml", "--watch", *uuids]
    done = subprocess.run(command, env=environ, input="\n" * looks, capture_output=True, text=True, check=True)
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    return [message for message in messages if "cards" in message]


def test_how_a_card_is_in_base_units(library: Path) -> None:
    (message,) = watched(library, ["GPU-1", "GPU-2"])
    assert message["cards"]["GPU-1"]["health"] == {
        "power_w": 312.5, "power_limit_w": 600.0, "temperature_c": 61, "utilization": 0.87, "memory_utilization": 0.4,
        "pcie_tx_bytes_per_s": 1.5e6, "pcie_rx_bytes_per_s": 2e9, "ecc_uncorrected": 3, "rows_pending": 1,
        "rows_failed": 0,
    }  # fmt: skip
    assert message["cards"]["GPU-2"]["health"] == {"temperature_c": 61}, "what it can't answer is left out"
    assert message["cards"]["GPU-2"]["used"] == 2 << 30


def test_errors_of_watched_cards_are_told_once(library: Path) -> None:
    first, second = watched(library, ["GPU-1"], looks=2, NVML_XID="1:31 1:79")
    assert first["events"] == [{"uuid": "GPU-1", "xid": 31}, {"uuid": "GPU-1", "xid": 79}]
    assert second["events"] == []


@pytest.mark.parametrize("env", [{"NVML_NO_EVENTS": "1"}, {"NVML_XID": ""}])
def test_without_events_the_rest_is_told(library: Path, env: dict[str, str]) -> None:
    (message,) = watched(library, ["GPU-1"], 1, **env)
    assert message["events"] == [] and message["cards"]["GPU-1"]["used"] == 5 << 20


def test_a_card_that_is_lost_while_it_is_asked_how_it_is_is_lost(library: Path) -> None:
    (message,) = watched(library, ["GPU-1", "GPU-2"], NVML_LOST="1")
    assert (
        message["cards"]["GPU-2"] == {"error": "GPU is lost", "error_code": 15}
        and "health" in message["cards"]["GPU-1"]
    )
