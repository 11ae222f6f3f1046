"""The small parts: listener, starts, proof, gpus, publishing, configuration, ops bodies."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dsv4_pd.plan.guard_config import from_json
from dsv4_pd.run.guard import listener, plugin_proof, publish, starts, tree
from dsv4_pd.run.guard.gpus import Gpus
from dsv4_pd.run.guard.states import Verdict
from dsv4_pd.run.ops import server as ops
from dsv4_pd.run.states import StateName
from dsv4_pd.run.supervision import family
from guard.appliance import Appliance


def test_listener_reads_supervisords_own_lines() -> None:
    header = listener.tokens("ver:3.0 server:dsv4-pd serial:21 pool:guard poolserial:10 "
                             "eventname:PROCESS_STATE_EXITED len:71")  # fmt: skip
    event = listener.parse(header, "processname:decode groupname:decode from_state:RUNNING expected:0 pid:2766")
    assert event == listener.Event("decode", "EXITED", 2766)
    assert listener.parse({"eventname": "TICK_5"}, "when:1") is None


# --- starts ----------------------------------------------------------------------------------------------------------


def test_starts_in_a_row() -> None:
    record = starts.Starts()
    for _ in range(3):
        assert starts.safe_reason(record, "plan", "auto", 3) is None
        record = record.begin("plan")
    assert starts.safe_reason(record, "plan", "auto", 3)
    assert starts.safe_reason(record, "plan", "off", 3) is None
    assert starts.safe_reason(record, "another plan", "auto", 3) is None
    assert record.begin("another plan").open == 1
    assert record.succeeded({}).open == 0
    assert starts.safe_reason(starts.Starts(), "plan", "on", 3)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"open": 1, "new": 2}', "null"])
def test_a_damaged_record_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "starts.json").write_text(text)
    assert starts.read(tmp_path / "starts.json") == starts.Starts()


def test_a_read_only_state_folder_is_said_and_survived(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "starts.json" in str(starts.write(tmp_path / "file" / "starts.json", starts.Starts()))


# --- proof -----------------------------------------------------------------------------------------------------------

GOOD = {"plugin": "dsv4-cpu", "pid": 11, "status": "ok", "patches": {"rope": "active", "nixl": "installed"}}
PROOFS: dict[str, tuple[list[dict[str, Any]], str | None]] = {
    "good": ([GOOD], None),
    "no record": ([], "left no record"),
    "of another server": ([{**GOOD, "pid": 99}], "left no record"),
    "of a dead process": ([{**GOOD, "pid": 12}], "left no record"),
    "failed in one process": ([GOOD, {**GOOD, "pid": 10, "status": "failed", "reason": "no such target"}], "no such"),
    "registered, never called": ([{**GOOD, "patches": {"rope": "installed"}}], "none of its patches was called"),
    "a required one never called": ([{**GOOD, "required": ["nixl"]}], "never called: nixl"),
    "of another plugin": ([{**GOOD, "plugin": "other"}], "left no record"),
}


@pytest.mark.parametrize(("records", "doubt"), PROOFS.values(), ids=PROOFS)
def test_proof(tmp_path: Path, records: list[dict[str, Any]], doubt: str | None) -> None:
    for number, record in enumerate(records):
        (tmp_path / f"{number}.json").write_text(json.dumps(record))
    (tmp_path / "half.json").write_text('{"plug')
    groups = {10: 10, 11: 10, 99: 99}
    found = plugin_proof.missing(tmp_path, {"decode": 10}, ("dsv4-cpu",), groups.get)
    assert (not found) if doubt is None else (len(found) == 1 and doubt in found[0] and "in decode" in found[0])


# --- GPUs ------------------------------------------------------------------------------------------------------------


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
    gpus.end()
    nobody = Gpus([])
    await nobody.read()
    assert nobody.lost() is None, "no GPU in the plan, none to lose"


async def test_each_card_is_asked_once_and_bytes_stay_bytes(nvml: Callable[..., None], tmp_path: Path) -> None:
    gpus = Gpus([f"GPU-{number}" for number in range(8)])
    nvml(used=123_456_789)
    await gpus.read()
    assert (tmp_path / "calls").read_text().split() == [f"GPU-{number}" for number in range(8)]
    (card,) = gpus.memory(["GPU-3"])
    assert (card["used_bytes"], card["total_bytes"]) == (123_456_789, 97_887 * 2**20)
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


# --- files -----------------------------------------------------------------------------------------------------------


def test_a_verdict_counts_only_under_the_same_supervisord(tmp_path: Path) -> None:
    path = tmp_path / "exit.json"
    publish.write_verdict(path, Verdict(70, "GPU lost"), ["last line"], owner=7)
    assert publish.read_verdict(path, owner=7) == Verdict(70, "GPU lost")
    assert publish.read_verdict(path, owner=8) is None
    assert json.loads(path.read_text())["lines"] == ["last line"]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a tmpfs: needs root")
def test_health_is_written_on_a_full_disk(tmp_path: Path) -> None:
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "full", tmp_path], check=False).returncode:
        pytest.skip("may not mount a tmpfs here")
    try:
        path = tmp_path / "health.json"
        assert publish.write_json(path, {"state": "READY", "reason": "x" * 200}) is None
        with pytest.raises(OSError, match="No space"), (tmp_path / "filler").open("wb") as filler:
            filler.write(b"\0" * 10**6)
        assert publish.write_json(path, {"state": "RECOVERING", "reason": "y" * 250}) is None
        assert publish.read_json(path)["state"] == "RECOVERING"
    finally:
        subprocess.run(["umount", "-l", tmp_path], check=True)


def test_the_configuration_survives_its_file(tmp_path: Path) -> None:
    config = replace(Appliance(tmp_path).config, api_key='k"€\n', plugins=("a",))
    assert from_json(config.to_json()) == config
    assert 'k"' not in repr(config)


# --- ops -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", StateName)
def test_status_and_body_agree(state: StateName) -> None:
    status, body = ops.ready_of({"state": state, "reason": "r"})
    assert (status == 200) == body["ready"] == (state in ("READY", "DEGRADED"))
    status, body = ops.live_of({"state": state, "reason": "r", "heartbeat_monotonic": 100.0}, 101.0)
    assert (status == 200) == body["live"] == (state not in ("FAILED", "STOPPING"))


def test_a_stuck_guard_is_not_live() -> None:
    assert ops.live_of({"state": "READY", "heartbeat_monotonic": 100.0}, 120.0)[0] == 503


# --- process trees ---------------------------------------------------------------------------------------------------


def person(**known: Any) -> family.Process:
    return family.Process(**{"parent": 1, "group": 1, "session": 1, "started": 1, **known})


def test_what_a_dead_program_left_is_found_however_it_hides() -> None:
    """supervisord (10) leads the session; decode (30, group 30) is down, prefill (20) lives; the guard is 40."""
    ours = {"mark": "m", "session": 10}
    people = {
        1: person(),
        10: person(group=10, session=10, mark="m"),
        20: person(parent=10, group=20, program="prefill", **ours),
        21: person(parent=20, group=21, session=21),  # its scheduler, in a session and a group of its own, no mark
        22: person(parent=21, group=20, session=10),  # and that one's child
        31: person(parent=1, group=30, program="decode", **ours),  # decode's, by name
        32: person(parent=1, group=30, session=10),  # decode's, by its group's death: it wrote over its environment
        33: person(parent=1, group=33, session=33, mark="m", program="decode"),  # decode's, in another session
        40: person(parent=10, group=40, program="guard", **ours),
        50: person(parent=1, group=50, session=50, mark="m"),  # the link test's, which `serve` started
        60: person(parent=1, group=60, session=60, mark="other", program="decode"),  # another appliance's
        61: person(parent=1, group=61, session=61, program="decode"),
    }
    assert family.leftovers(people, "m", 10, "decode", living={20, 40}) == {31, 32, 33}
    assert family.leftovers(people, "m", 10, "router", living={20, 40}) == {32}
    assert family.programs(people, "m", 10, me=40) == {20, 21, 22, 31, 32, 33}
    assert family.leftovers(people, "", 0, "decode", living={20, 40}) == frozenset(), "without a mark nothing is ours"


def test_files_below_dev_shm_are_found_by_who_maps_them_and_removed() -> None:
    name = Path(f"/dev/shm/dsv4-test-{os.getpid()}")
    name.write_bytes(b"x" * 4096)
    code = f"import mmap, time; f = open('{name}', 'r+b'); m = mmap.mmap(f.fileno(), 0); f.close(); print('up', flush=True); time.sleep(60)"  # noqa: E501
    user = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert user.stdout
        user.stdout.readline()
        found = tree.shared_memory(frozenset({user.pid}))
        assert str(name) in found
        tree.unlink(found)
        assert not name.exists()
    finally:
        user.kill()
        user.wait()
        name.unlink(missing_ok=True)


def test_semaphores_of_python_are_found_though_they_were_mapped_under_another_name() -> None:
    code = (
        "import multiprocessing as m, time; s = m.get_context('spawn').Lock(); print('up', flush=True); time.sleep(60)"
    )
    before = set(Path("/dev/shm").iterdir())
    user = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert user.stdout
        user.stdout.readline()
        fresh = {str(path) for path in set(Path("/dev/shm").iterdir()) - before if path.name.startswith("sem.mp-")}
        found = tree.shared_memory(frozenset({user.pid}))
        assert found & fresh
    finally:
        os.killpg(user.pid, 9)
        user.wait()
        tree.unlink(found)


def test_the_guard_stays_light() -> None:
    heavy = "'pydantic', 'click', 'rich', 'yaml'"
    look = f"import sys, dsv4_pd.run.guard.run; print([m for m in ({heavy}) if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_guard_json_is_private(tmp_path: Path) -> None:
    """`files.write` gives it mode 0600, because it may hold the API key."""
    from dsv4_pd.plan.programs import ConfigFile
    from dsv4_pd.run.files import write

    write((ConfigFile(tmp_path / "guard.json", "{}"),))
    assert stat.S_IMODE((tmp_path / "guard.json").stat().st_mode) == 0o600
