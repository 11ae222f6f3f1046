"""Writes tests/hosts/<name>/machine.json for the constructed hosts: `python tests/hosts/build.py`.

What each machine is modelled on, with its source, stands in the note.md beside it. A captured host (no builder
here) is never rewritten.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dsv4_pd
from dsv4_pd.doctor.catalogue import examine
from dsv4_pd.doctor.report import as_text
from dsv4_pd.host.capture import minimal_config
from dsv4_pd.host.machine import Replay
from dsv4_pd.host.parse import cpu_list, format_cpu_list
from dsv4_pd.host.read import facts_of, probe_node
from dsv4_pd.plan import show
from dsv4_pd.plan.around.surroundings import Surroundings
from dsv4_pd.plan.disk.paths import Paths, share_dir
from dsv4_pd.plan.model.files import Model
from dsv4_pd.plan.shipped import data as shipped
from dsv4_pd.plan.situation import Situation
from dsv4_pd.plan.survey import consider
from dsv4_pd.settings.load import load

HERE = Path(__file__).parent
RUN = Path("/run/dsv4-pd")
MIB = 1 << 20
PRO_6000 = ("NVIDIA RTX PRO 6000 Blackwell Server Edition", [12, 0], 97887)
MAX_Q = ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", [12, 0], 97887)
RTX_5090 = ("NVIDIA GeForce RTX 5090", [12, 0], 32607)
T400 = ("NVIDIA T400 4GB", [7, 5], 4096)
H200 = ("NVIDIA H200", [9, 0], 143771)


@dataclass
class Card:
    bus: str
    path: str  # below /sys/devices
    node: int
    model: tuple[str, list[int], int] = PRO_6000
    extra: dict[str, Any] = field(default_factory=dict)
    width: int = 16


@dataclass
class Node:
    cpus: str
    gib: int
    socket: int = 0


def direct(bus: str, root: str, node: int, **more: Any) -> Card:
    """A card straight below a root port; `root` is the host bridge's bus, e.g. "c0"."""
    return Card(f"0000:{bus}:00.0", f"pci0000:{root}/0000:{root}:01.1/0000:{bus}:00.0", node, **more)


def switched(bus: str, root: str, down: str, node: int) -> Card:
    """A card behind a switch: root port, upstream port on the next bus, downstream port on the one after."""
    up, low = (f"{int(root, 16) + n:02x}" for n in (1, 2))
    path = f"pci0000:{root}/0000:{root}:01.1/0000:{up}:00.0/0000:{low}:{down}.0/0000:{bus}:00.0"
    return Card(f"0000:{bus}:00.0", path, node)


def machine(cards: list[Card], nodes: list[Node], **more: Any) -> dict[str, Any]:
    """A healthy bare-metal host with Docker and the toolkit; keyword `files` overrides single files."""
    files = _system_files(nodes) | _node_files(nodes) | _card_files(cards)
    files |= more.pop("files", {})
    links = {f"/sys/bus/pci/devices/{c.bus}": f"/sys/devices/{c.path}" for c in cards}
    # Root ports and downstream ports have the capability, a switch's upstream port (third from the card) has not.
    redirect = more.pop("acs", False)
    bridges = {
        part: None if below == 2 else redirect
        for c in cards
        for below, part in enumerate(reversed(c.path.split("/")[1:-1]), start=1)
    }
    config = {f"/sys/bus/pci/devices/{b}/config": minimal_config(on) for b, on in sorted(bridges.items())}
    devices = [f"nvidia{i}" for i in range(len(cards))] + ["nvidia-uvm", "nvidiactl"] if cards else []
    record = {
        "files": {path: text for path, text in files.items() if text is not None},
        "bytes": config,
        "links": links,
        "clock": 1_780_000_001.0,
        "nvml": nvml(cards),
        "folders": {
            "/dev": sorted(devices),
            "/etc/cdi": ["nvidia.yaml"],
            "/usr/lib/x86_64-linux-gnu": ["libcuda.so.1", "libnvidia-ml.so.1"],
        },
    }
    return record | more


def _system_files(nodes: list[Node]) -> dict[str, str]:
    total = sum(node.gib for node in nodes)
    having = frozenset(i for i, node in enumerate(nodes) if node.gib)
    cpus: frozenset[int] = frozenset().union(*(cpu_list(node.cpus) for node in nodes))
    return {
        "/proc/self/status": f"Cpus_allowed_list:\t{format_cpu_list(cpus)}\n"
        f"Mems_allowed_list:\t{format_cpu_list(having)}\n",
        "/proc/meminfo": f"MemTotal:       {total << 20} kB\nMemAvailable:   {(total - 6) << 20} kB\n",
        "/proc/self/limits": "Max open files            1048576              1048576              files     \n"
        "Max locked memory         unlimited            unlimited            bytes     \n",
        "/proc/mounts": "shm /dev/shm tmpfs rw,nosuid,nodev,noexec,relatime,size=33554432k,inode64 0 0\n",
        "/proc/self/cgroup": "0::/\n",
        "/sys/fs/cgroup/memory.max": "max\n",
        "/sys/fs/cgroup/cpu.max": "max 100000\n",
        "/proc/sys/vm/nr_hugepages": "0\n",
        "/proc/sys/kernel/osrelease": "6.8.0-85-generic\n",
        "/proc/cmdline": "BOOT_IMAGE=/vmlinuz-6.8.0-85-generic root=UUID=0 ro iommu=off amd_iommu=off\n",
        "/proc/cpuinfo": "flags\t\t: fpu\n",
        "/sys/class/rtc/rtc0/since_epoch": "1780000000\n",
        "/etc/docker/daemon.json": '{"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}}\n',
        "/var/lib/dpkg/status": "Package: docker-ce\nStatus: install ok installed\nVersion: 5:28.5.1-1~debian.12\n\n"
        "Package: nvidia-container-toolkit\nStatus: install ok installed\n"
        "Version: 1.18.0-1\n\n",
    }


def _node_files(nodes: list[Node]) -> dict[str, str]:
    base = "/sys/devices/system"
    files = {f"{base}/node/online": format_cpu_list(frozenset(range(len(nodes)))) + "\n"}
    for number, node in enumerate(nodes):
        folder = f"{base}/node/node{number}"
        files[f"{folder}/cpulist"] = node.cpus + "\n"
        files[f"{folder}/meminfo"] = (
            f"Node {number} MemTotal:       {node.gib << 20} kB\n"
            f"Node {number} MemFree:        {max(node.gib - 3, 0) << 20} kB\n"
        )
        files[f"{folder}/distance"] = " ".join(str(_distance(nodes, number, other)) for other in range(len(nodes)))
        if node.cpus:
            first = min(cpu_list(node.cpus))
            files[f"{base}/cpu/cpu{first}/topology/physical_package_id"] = f"{node.socket}\n"
    return files


def _distance(nodes: list[Node], a: int, b: int) -> int:
    return 10 if a == b else 12 if nodes[a].socket == nodes[b].socket else 32


def _card_files(cards: list[Card]) -> dict[str, str]:
    files = {}
    for card in cards:
        files[f"/sys/bus/pci/devices/{card.bus}/numa_node"] = f"{card.node}\n"
        files[f"/sys/bus/pci/devices/{card.bus}/max_link_width"] = "16\n"
        for process in card.extra.get("processes", []):
            files[f"/proc/{process['pid']}/comm"] = process.get("comm", "python3") + "\n"
    return files


def nvml(cards: list[Card]) -> dict[str, Any]:
    """NVML's answers for the cards, in bus order."""
    gpus = [_gpu(index, card) for index, card in enumerate(cards)]
    peers = [["-" if a is b else "ok" for b in cards] for a in cards]
    return {"error": None, "driver_version": "580.95.05", "cuda_version": 13000, "gpus": gpus, "peer_access": peers}


def _gpu(index: int, card: Card) -> dict[str, Any]:
    name, capability, mib = card.model
    base = {
        "index": index,
        "uuid": f"GPU-{index:08x}-0000-4000-8000-{index:012x}",
        "name": name,
        "pci_bus_id": "0000" + card.bus.upper(),
        "compute_capability": capability,
        "memory_total": mib * MIB,
        "memory_used": 4 * MIB,
        "mig": False,
        "ecc": True,
        "persistence": True,
        "display": False,
        "pcie_generation": 1,
        "pcie_width": card.width,
        "pcie_max_generation": 5,
        "pcie_card_generation": 5,
        "pcie_max_width": 16,
        "nvlinks": 0,
        "processes": [],
    }
    return base | {k: v for k, v in card.extra.items() if k != "comm"}


TURIN = [Node("0-63,128-191", 755, 0), Node("64-127,192-255", 755, 1)]
NPS4 = [Node(f"{16 * i}-{16 * i + 15},{128 + 16 * i}-{143 + 16 * i}", 188, i // 4) for i in range(8)]


def _eight(nodes: list[int]) -> list[Card]:
    roots = (
        ("01", "00"),
        ("21", "20"),
        ("41", "40"),
        ("61", "60"),
        ("81", "80"),
        ("a1", "a0"),
        ("c1", "c0"),
        ("e1", "e0"),
    )
    return [direct(bus, root, node) for (bus, root), node in zip(roots, nodes, strict=True)]


def eight_two_sockets() -> dict[str, Any]:
    return machine(_eight([0, 0, 0, 0, 1, 1, 1, 1]), TURIN)


def eight_nps4() -> dict[str, Any]:
    return machine(_eight([0, 1, 2, 3, 4, 5, 6, 7]), NPS4)


def eight_switches() -> dict[str, Any]:
    cards = [
        switched("06", "00", "01", 0),
        switched("07", "00", "02", 0),
        switched("75", "70", "01", 0),
        switched("76", "70", "02", 0),
        switched("84", "80", "01", 1),
        switched("85", "80", "02", 1),
        switched("f4", "f0", "01", 1),
        switched("f5", "f0", "02", 1),
    ]
    found = machine(cards, [Node("0-63,128-191", 755, 0), Node("64-127,192-238,240-255", 755, 1)], acs=True)
    found["nvml"] |= {"driver_version": "595.58.03", "cuda_version": 13020}
    return found


def four_one_socket() -> dict[str, Any]:
    cards = [
        direct(bus, root, 0, model=MAX_Q) for bus, root in (("01", "00"), ("21", "20"), ("41", "40"), ("e1", "e0"))
    ]
    return machine(cards, [Node("0-63", 251)])


def two_one_socket() -> dict[str, Any]:
    cards = [direct(bus, root, 0, model=MAX_Q) for bus, root in (("01", "00"), ("41", "40"))]
    return machine(cards, [Node("0-31", 125)])


def mixed_cards() -> dict[str, Any]:
    display = {
        "ecc": None,
        "display": True,
        "pcie_max_generation": 3,
        "pcie_card_generation": 3,
        "processes": [{"pid": 2210, "memory": 41 * MIB, "comm": "Xorg"}],
    }
    cards = [
        direct("01", "00", 0, model=T400, extra=display),
        direct("11", "10", 0),
        direct("21", "20", 0),
        direct("41", "40", 0, model=RTX_5090, extra={"ecc": None}),
        direct("61", "60", 0),
        direct("81", "80", 0),
    ]
    return machine(cards, [Node("0-95", 503)])


def numa_unknown() -> dict[str, Any]:
    return machine(_eight([-1] * 8), TURIN)


def memoryless_node() -> dict[str, Any]:
    return machine(_eight([0, 0, 0, 0, 1, 1, 1, 1]), [TURIN[0], Node("64-127,192-255", 0, 1)])


def cpuset_excludes_node() -> dict[str, Any]:
    status = "Cpus_allowed_list:\t0-63,128-191\nMems_allowed_list:\t0\n"
    return machine(
        _eight([0, 0, 0, 0, 1, 1, 1, 1]),
        TURIN,
        files={"/proc/self/status": status, "/.dockerenv": "", "/var/lib/dpkg/status": ""},
    )


def vm_one_node() -> dict[str, Any]:
    cards = [Card(f"0000:{n:02x}:00.0", f"pci0000:00/0000:00:{n:02x}.0/0000:{n:02x}:00.0", -1) for n in range(5, 13)]
    found = machine(
        cards,
        [Node("0-127", 1007)],
        files={
            "/proc/cpuinfo": "flags\t\t: fpu hypervisor\n",
            "/sys/class/rtc/rtc0/since_epoch": None,
            "/proc/cmdline": "BOOT_IMAGE=/vmlinuz root=LABEL=cloudimg-rootfs ro console=ttyS0\n",
        },
    )
    found["nvml"]["peer_access"] = [["-" if a is b else "chipset not supported" for b in cards] for a in cards]
    found["bytes"] = {}
    return found


def mig_on_one_card() -> dict[str, Any]:
    cards = _eight([0, 0, 0, 0, 1, 1, 1, 1])
    cards[5].extra = {"mig": True}
    return machine(cards, TURIN)


def busy_two_cards() -> dict[str, Any]:
    cards = _eight([0, 0, 0, 0, 1, 1, 1, 1])
    for number, pid in ((2, 31337), (6, 31338)):
        cards[number].extra = {
            "memory_used": 61_000 * MIB,
            "processes": [{"pid": pid, "memory": 60_990 * MIB, "comm": "VLLM::EngineCor"}],
        }
    return machine(cards, TURIN)


def one_h200() -> dict[str, Any]:
    card = direct("4e", "48", 0, model=H200, extra={"nvlinks": 18, "memory_used": 0})
    return machine([card], [Node("0-47,96-143", 1007, 0), Node("48-95,144-191", 1007, 1)])


def old_deployment() -> dict[str, Any]:
    unit = (
        "[Unit]\nDescription=DeepSeek prefill\n[Service]\nEnvironment=CUDA_VISIBLE_DEVICES=0,1,2,3\n"
        "ExecStart=/opt/sglang/bin/python -m sglang.launch_server --model-path /models/dsv4 \\\n"
        "  --disaggregation-mode prefill --port 30000 --disaggregation-bootstrap-port 8998\n"
        "[Install]\nWantedBy=multi-user.target\n"
    )
    wants = "/etc/systemd/system/multi-user.target.wants"
    found = machine(
        _eight([0, 0, 0, 0, 1, 1, 1, 1]),
        TURIN,
        files={
            f"{wants}/dsv4-prefill.service": unit,
            "/proc/cmdline": "BOOT_IMAGE=/vmlinuz-6.8.0-85-generic root=UUID=0 ro\n",
            "/sys/kernel/iommu_groups/17/type": "DMA-FQ\n",
        },
    )
    found["folders"] |= {
        wants: ["dsv4-prefill.service"],
        "/sys/class/iommu": ["ivhd0"],
        "/sys/kernel/iommu_groups": ["17"],
    }
    found["nvml"] |= {"driver_version": "570.172.08", "cuda_version": 12080}
    return found


def plain_docker_run() -> dict[str, Any]:
    """A container of `docker run --gpus all` with none of the other flags."""
    return machine(
        _eight([0, 0, 0, 0, 1, 1, 1, 1]),
        TURIN,
        files={
            "/.dockerenv": "",
            "/var/lib/dpkg/status": "",
            "/etc/docker/daemon.json": None,
            "/proc/mounts": "shm /dev/shm tmpfs rw,nosuid,nodev,noexec,relatime,size=65536k,inode64 0 0\n",
            "/proc/self/limits": "Max open files            1024                 524288               files     \n"
            "Max locked memory         8388608              8388608              bytes     \n",
            "/sys/fs/cgroup/memory.max": f"{64 << 30}\n",
        },
        # Docker's seccomp profile without CAP_SYS_NICE: CPUs may be bound, memory may not.
        numa={"policy": "cpu", "reason": "set_mempolicy: Operation not permitted"},
    )


BUILDERS: dict[str, Callable[[], dict[str, Any]]] = {
    "eight-two-sockets": eight_two_sockets,
    "eight-nps4": eight_nps4,
    "eight-switches": eight_switches,
    "four-one-socket": four_one_socket,
    "two-one-socket": two_one_socket,
    "mixed-cards": mixed_cards,
    "numa-unknown": numa_unknown,
    "memoryless-node": memoryless_node,
    "cpuset-excludes-node": cpuset_excludes_node,
    "vm-one-node": vm_one_node,
    "mig-on-one-card": mig_on_one_card,
    "busy-two-cards": busy_two_cards,
    "one-h200": one_h200,
    "old-deployment": old_deployment,
    "plain-docker-run": plain_docker_run,
}


def text(name: str) -> str:
    """The machine.json of a constructed host."""
    return json.dumps(BUILDERS[name](), indent=1) + "\n"


def situation_of(folder: Path, run: Path = RUN) -> Situation:
    """A host as serve, plan and doctor see it, with everything around the facts in order.

    Only what the machine itself decides is taken from the capture: its facts and the NUMA policy that it allows.
    """
    machine = Replay(folder)
    facts = facts_of(machine)
    environ = {"DSV4_ENGINE_PYTHON": "/opt/dsv4-pd/engine/bin/python", "PATH": "/usr/local/bin:/usr/bin:/bin"}
    state = Path("/var/lib/dsv4-pd")
    around = Surroundings(
        paths=Paths(run, state, state / "cache", run / "tmp"),
        share=share_dir(),
        environ=environ,
        numa=machine.numa(probe_node(facts)),
        model=Model(Path("/models/dsv4"), total_bytes=157 << 30),
    )
    return consider(load(environ), facts, shipped.read(), lambda _: around)


def plan_text(situation: Situation) -> str:
    """What `dsv4-pd plan` says, or why there is no plan; without the settings and the two files that hold paths of
    this checkout inside JSON and INI (the programs in them stand above, and a test compares the files)."""
    if situation.plan is None:
        return f"{situation.refusal}\n"
    hidden = ("settings", *(f"file {path}" for path in machine_files(situation)))
    parts = [lines for name, lines in show.sections(situation).items() if name not in hidden and lines]
    return anywhere("\n\n".join("\n".join(lines) for lines in parts)) + "\n"


def machine_files(situation: Situation) -> tuple[Path, Path]:
    """The files that are not shown in plan.txt."""
    paths = situation.planned().paths
    return paths.guard_config, paths.supervisor_conf


def anywhere(text: str) -> str:
    """A text without the places of this checkout."""
    places = {sys.executable: "<python>", str(Path(dsv4_pd.__file__).parent): "<dsv4_pd>", str(share_dir()): "<share>"}
    for place, name in places.items():
        text = text.replace(place, name)
    return text


def doctor_text(situation: Situation) -> str:
    """What `dsv4-pd doctor` prints."""
    return as_text(examine(situation)) + "\n"


def hosts() -> list[Path]:
    """Every host's folder, constructed and captured."""
    return sorted(path.parent for path in HERE.glob("*/machine.json"))


def write() -> None:
    """Write the machines, then the golden tables; read the difference before you commit it."""
    for name in BUILDERS:
        (HERE / name).mkdir(exist_ok=True)
        (HERE / name / "machine.json").write_text(text(name), encoding="utf-8")
    for folder in hosts():
        situation = situation_of(folder)
        (folder / "plan.txt").write_text(plan_text(situation), encoding="utf-8")
        (folder / "doctor.txt").write_text(doctor_text(situation), encoding="utf-8")


if __name__ == "__main__":
    write()
