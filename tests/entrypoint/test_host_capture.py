"""host.capture: a capture replays to the same facts and carries nothing that names the machine or its people."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from dsv4_pd.host.capture import capture, from_json
from dsv4_pd.host.machine import Live, Replay
from dsv4_pd.host.read import facts_of
from support.machines import read_facts

HOSTS = Path(__file__).parents[1] / "hosts"


@pytest.fixture
def talkative(tmp_path: Path) -> Path:
    """A root whose files say too much, as real ones do."""
    files = {
        "proc/self/status": "Name:\tpython3\nUid:\t1000\nCpus_allowed_list:\t0-3\nMems_allowed_list:\t0\n",
        "proc/cmdline": "BOOT_IMAGE=/vmlinuz root=UUID=my-disk ro iommu=pt rescue_password=hunter2\n",
        "proc/self/cgroup": f"0::/docker/{'ab' * 32}\n",
        f"sys/fs/cgroup/docker/{'ab' * 32}/memory.max": "1073741824\n",
        "proc/mounts": "//nas/alice /home/alice cifs rw 0 0\nshm /dev/shm tmpfs rw,size=64k 0 0\n",
        "var/lib/dpkg/status": "Package: secret-tool\nStatus: install ok installed\nVersion: 1\n\n"
        "Package: docker-ce\nStatus: install ok installed\nVersion: 28.1\n\n",
        "etc/docker/daemon.json": '{"registry-mirrors": ["https://alice:pw@mirror"], "runtimes": {"nvidia": {}}}',
        "etc/systemd/system/multi-user.target.wants/llm.service": "[Service]\n"
        "Environment=HF_TOKEN=hf_abc\nExecStart=/opt/bin/sglang --api-key sk-topsecret --port 30000\n",
        "etc/systemd/system/multi-user.target.wants/vpn.service": "[Service]\nExecStart=/usr/bin/vpn alice@example\n",
        "sys/devices/system/node/online": "0\n",
        "sys/devices/system/node/node0/cpulist": "0-3\n",
        "sys/devices/system/node/node0/meminfo": "Node 0 MemTotal: 1024 kB\nNode 0 AnonPages: 7 kB\n",
    }
    for name, text in files.items():
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "root"


def test_capture_replays_to_the_same_facts(talkative: Path, tmp_path: Path) -> None:
    machine = Live(talkative)
    capture(machine, tmp_path / "out")
    live, replayed = facts_of(machine), read_facts(tmp_path / "out")
    assert replayed.units[0].ports == live.units[0].ports == (30000,)
    assert (replayed.limits, replayed.numa_nodes, replayed.software, replayed.iommu) == (
        live.limits,
        live.numa_nodes,
        live.software,
        live.iommu,
    )
    assert live.limits.memory_limit_bytes == 1 << 30 and live.iommu == "off"


def test_capture_holds_no_names_and_no_secrets(talkative: Path, tmp_path: Path) -> None:
    text = capture(Live(talkative), tmp_path / "out").read_text(encoding="utf-8")
    for word in ("alice", "hunter2", "topsecret", "hf_abc", "my-disk", "secret-tool", "vpn", "abab", "python3"):
        assert word not in text, word


def test_captured_host_is_captured_the_same_again(tmp_path: Path) -> None:
    source = HOSTS / "eight-switches"
    capture(Replay(source), tmp_path)
    assert read_facts(tmp_path) == read_facts(source)


def test_uuids_are_replaced_everywhere(tmp_path: Path) -> None:
    record = json.loads((HOSTS / "one-h200" / "machine.json").read_text(encoding="utf-8"))
    real = "GPU-e588912b-1368-6b4f-0e2a-0d08f8afb39b"
    record["nvml"]["gpus"][0]["uuid"] = real
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "machine.json").write_text(json.dumps(record), encoding="utf-8")
    assert "e588912b" not in capture(Replay(tmp_path / "in"), tmp_path / "out").read_text(encoding="utf-8")


def test_root_without_nvml_has_no_gpu(talkative: Path) -> None:
    facts = read_facts(talkative)
    assert facts.gpus == () and facts.gpu_error


def test_other_json_is_no_facts_file() -> None:
    with pytest.raises(ValueError, match="no facts file"):
        from_json('{"name": "x"}')


def test_reading_the_live_machine_finds_its_cpus() -> None:
    facts = read_facts()
    assert facts.allowed_cpus and facts.numa_nodes and facts.memory_bytes
