"""torch's rendezvous with the gate's hook, in real ranks: on loopback alone, and as useful as before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, VENVS
from support.ports import free_ports

RANK = """
import datetime, os, socket, sys
from multiprocessing import parent_process
import multiprocessing
multiprocessing.parent_process = object  # a scheduler is a child of the server
from sglang.srt.plugins import load_plugins
load_plugins()
import torch
import torch.distributed as d

port, rank, ranks, host = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]

def listens(address):
    with socket.socket() as probe:
        return probe.connect_ex((address, port)) == 0

for turn in range(2 if ranks == 1 else 1):  # the second time as after a group that was given up
    d.init_process_group("gloo", init_method=f"tcp://{host}:{port}", rank=rank, world_size=ranks,
                         timeout=datetime.timedelta(seconds=60))
    one = torch.ones(1)
    d.all_reduce(one)
    assert one.item() == ranks
    more = d.new_group(list(range(ranks)))
    d.barrier(more)
    if rank == 0:
        # any other address of this host is another interface's; 127.0.0.2 stands for it where there is none
        print("loopback", listens("127.0.0.1"), "elsewhere", listens("127.0.0.2"), flush=True)
    d.barrier()
    d.destroy_process_group()
"""


@pytest.mark.engine
@pytest.mark.parametrize(
    ("ranks", "host", "loopback"), [(2, "127.0.0.1", True), (1, "localhost", True), (1, "0.0.0.0", False)]
)
def test_ranks_meet_on_loopback_alone(tmp_path: Path, ranks: int, host: str, loopback: bool) -> None:
    """Told another address, torch does as usual, and the record says that the hook was not in the way: no READY."""
    (port,) = free_ports(1)
    environ = {"SGLANG_PLUGINS": "dsv4-gate", "HOME": str(tmp_path), "GLOO_SOCKET_IFNAME": "lo", "PATH": "/usr/bin",
               "PYTHONPATH": f"{ROOT / 'gate'}:{ROOT / 'hooks'}", "OMP_NUM_THREADS": "1"}  # fmt: skip
    started = []
    for rank in range(ranks):
        own = {**environ, "DSV4_PLUGIN_RECORD_DIR": str(tmp_path / str(rank))}
        command = [str(VENVS / "engine/bin/python"), "-c", RANK, str(port), str(rank), str(ranks), host]
        started.append(subprocess.Popen(command, env=own, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    said = [process.communicate(timeout=240) for process in started]
    assert [process.returncode for process in started] == [0] * ranks, said[0][1][-2000:]
    assert set(said[0][0].splitlines()) == {f"loopback True elsewhere {not loopback}"}
    records = ["active" in next((tmp_path / str(rank)).glob("*.json")).read_text() for rank in range(ranks)]
    assert records == [loopback] + [False] * (ranks - 1), "rank 0's store is the proof"


def test_a_torch_of_another_shape_is_refused(tmp_path: Path) -> None:
    """The record then says so, and the guard never says READY."""
    (tmp_path / "torch/distributed").mkdir(parents=True)
    (tmp_path / "torch/__init__.py").write_text("")
    (tmp_path / "torch/distributed/__init__.py").write_text("class TCPStore:\n    def __init__(self): 'no such'\n")
    for parameters, word in (("host", "takes"), ("hostname, port, rank, world_size, timeout, use_libuv", "listen_fd")):
        (tmp_path / "torch/distributed/rendezvous.py").write_text(f"def _create_c10d_store({parameters}): pass\n")
        look = "from dsv4_gate import rendezvous; rendezvous.check()"
        path = f"{tmp_path}:{ROOT / 'gate'}:{ROOT / 'hooks'}"
        done = subprocess.run([sys.executable, "-c", look], env={"PYTHONPATH": path},
                              capture_output=True, text=True, check=False)  # fmt: skip
        assert "EngineChanged" in done.stderr and word in done.stderr, done.stderr
