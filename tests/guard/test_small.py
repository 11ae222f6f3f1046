"""The small parts: listener, starts, proof, gpus, publishing, configuration, ops bodies."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from dsv4_pd.plan.guard_config import from_json
from dsv4_pd.run.guard import listener, plugin_proof, publish, starts, tree
from dsv4_pd.run.guard.gpus import Gpus
from dsv4_pd.run.guard.states import Verdict
from dsv4_pd.run.ops import server as ops
from dsv4_pd.run.states import StateName

from tests.guard.appliance import Appliance


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


class FakeNvml:
    """NVML's calls; the real library needs a driver."""

    def __init__(self, used: int = 0, pids: tuple[int, ...] = (), error: str = "") -> None:
        self.used, self.pids, self.error = used, pids, error

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        if self.error:
            raise RuntimeError(self.error)
        return uuid

    def nvmlDeviceGetMemoryInfo(self, _: str) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(used=self.used, total=97_887 * 2**20)

    def nvmlDeviceGetComputeRunningProcesses(self, _: str) -> list[SimpleNamespace]:  # noqa: N802
        return [SimpleNamespace(pid=pid) for pid in self.pids]


def test_a_lost_gpu_in_nvmls_words() -> None:
    assert Gpus(["GPU-1"], FakeNvml()).lost() is None
    assert "Unknown Error" in str(Gpus(["GPU-1"], FakeNvml(error="Unknown Error")).lost())
    assert Gpus([], FakeNvml(error="x")).lost() is None, "no GPU in the plan, none to lose"


def test_who_holds_the_memory() -> None:
    assert Gpus(["GPU-1"], FakeNvml(used=500 * 2**20)).holder(["GPU-1"]) is None
    assert "process 42" in str(Gpus(["GPU-1"], FakeNvml(40 * 10**9, (42,))).holder(["GPU-1"]))
    assert "outside this container" in str(Gpus(["GPU-1"], FakeNvml(40 * 10**9)).holder(["GPU-1"]))


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


def test_a_process_that_left_its_group_is_still_ours(tmp_path: Path) -> None:
    socket = str(tmp_path / "supervisor.sock")
    marks = {"SUPERVISOR_SERVER_URL": f"unix://{socket}", "SUPERVISOR_PROCESS_NAME": "decode"}
    stray = subprocess.Popen([sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"],
                             env={**os.environ, **marks}, start_new_session=True, stdout=subprocess.PIPE)  # fmt: skip
    try:
        assert stray.stdout
        stray.stdout.readline()
        assert tree.owned(socket, "decode") == {stray.pid}
        assert not tree.owned(socket, "prefill")
        assert tree.members(stray.pid) == {stray.pid}
        tree.kill(tree.owned(socket, "decode"))
        assert stray.wait(5) == -9
    finally:
        stray.kill()


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
