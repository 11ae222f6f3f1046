"""Parsers of host facts: whatever a file holds, no traceback, and of several entries the one that counts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dsv4_pd.doctor.checks import gpu_visible
from dsv4_pd.host import nvml_causes, parse, system
from dsv4_pd.host.facts import Gpu
from dsv4_pd.host.machine import Replay
from dsv4_pd.host.read import facts_of
from dsv4_pd.plan.survey import survey
from hypothesis import given, settings
from hypothesis import strategies as st

HOST = Path(__file__).parents[1] / "hosts" / "eight-two-sockets"
RECORD: dict[str, Any] = json.loads((HOST / "machine.json").read_text(encoding="utf-8"))
PIECES = st.sampled_from([
    "0-3", "-", ",", ":", "9" * 5000, "٣", "max", "kB", "\0", "0::/", "/dev/shm", "size=", "\n", " ", "MemTotal:",
    "unlimited", "pci", "..", "ExecStart=", "sglang", "http://", "0x", "-1", "\udcff",
])  # fmt: skip
TEXT = st.one_of(st.text(max_size=40), st.lists(PIECES, max_size=12).map("".join))
PARSERS: dict[str, Callable[[str], object]] = {
    "number": parse.number, "cpu_list": parse.cpu_list, "meminfo": lambda t: parse.meminfo(t, "MemTotal"),
    "status_list": lambda t: parse.status_list(t, "Cpus_allowed_list"),
    "limits": lambda t: parse.limits(t, "Max open files"),
    "shm_mount": parse.shm_mount, "cgroup_path": parse.cgroup_path, "memory_max": parse.memory_max,
    "cpu_max": parse.cpu_max, "bus_id": parse.bus_id, "bridges": parse.bridges, "unit_command": parse.unit_command,
    "acs": lambda t: parse.acs_request_redirect(t.encode("utf-8", "surrogatepass") * 9), "cpu_model": parse.cpu_model,
    "iommu_mode": lambda t: parse.iommu_mode((t,), True, t), "command_ports": parse.command_ports,
    "selinux": lambda t: parse.selinux(t, t), "user_namespace": parse.user_namespace,
    "package": lambda t: system._package(t, "docker.io"), "cause": lambda t: nvml_causes.explained(t, True),
}  # fmt: skip


@pytest.mark.parametrize("name", PARSERS)
@settings(max_examples=150, deadline=None)
@given(text=TEXT)
def test_no_text_breaks_a_parser(name: str, text: str) -> None:
    PARSERS[name](text)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_one_broken_file_hides_nothing_else(data: st.DataObject) -> None:
    """Any file of a real capture replaced by any text: the facts are still read, and the cards are all there."""
    path = data.draw(st.sampled_from(sorted(RECORD["files"])))
    text = data.draw(TEXT)
    facts = facts_of(Replay({**RECORD, "files": {**RECORD["files"], path: text}}))
    assert len(facts.gpus) == 8 and not facts.unread
    assert survey({}, Replay({**RECORD, "files": {**RECORD["files"], path: text}})).facts == facts


@pytest.mark.parametrize("field", ["pci_bus_id", "compute_capability", "memory_total", "uuid", "processes"])
@pytest.mark.parametrize("value", [None, "x", [], 7])
def test_one_broken_card_hides_no_other(field: str, value: object) -> None:
    cards = [dict(card) for card in RECORD["nvml"]["gpus"]]
    cards[2][field] = value
    facts = facts_of(Replay({**RECORD, "nvml": {**RECORD["nvml"], "gpus": cards}}))
    assert len(facts.gpus) + len(facts.lost_gpus) == 8 and len(facts.gpus) >= 7
    assert all(isinstance(card, Gpu) for card in facts.gpus)
    if facts.lost_gpus:
        assert facts.lost_gpus[0][0] == 2 and facts.unread


def test_a_reader_that_raises_is_named_and_costs_only_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Replay(RECORD)

    def text(path: str) -> str | None:
        if path == "/proc/mounts":
            raise RuntimeError("a driver's own idea of an error")
        found: str | None = RECORD["files"].get(path)
        return found

    monkeypatch.setattr(machine, "text", text)
    facts = facts_of(machine)
    assert [item.split(" (")[0] for item in facts.unread] == ["limits"]
    assert len(facts.gpus) == 8 and len(facts.numa_nodes) == 2 and facts.software.kernel


# --- the one that counts


def with_card(**files: str) -> dict[str, Any]:
    return {**RECORD, "files": {**RECORD["files"], **files}}


def test_the_cards_own_iommu_groups_count() -> None:
    groups = "/sys/kernel/iommu_groups"
    address = parse.bus_id(RECORD["nvml"]["gpus"][0]["pci_bus_id"])
    record = with_card(**{"/proc/cmdline": "quiet", f"{groups}/1/type": "identity", f"{groups}/2/type": "DMA-FQ"})
    record["folders"] = {**record["folders"], groups: ["1", "2"], "/sys/class/iommu": ["ivhd0"]}
    assert facts_of(Replay(record)).iommu is None  # they differ, and which is the cards' is not known
    for group, mode in (("1", "passthrough"), ("2", "translated")):
        links = {**record["links"], f"/sys/bus/pci/devices/{address}/iommu_group": f"{groups}/{group}"}
        assert facts_of(Replay({**record, "links": links})).iommu == mode


def test_the_smallest_limit_above_us_counts() -> None:
    record = with_card(**{
        "/proc/self/cgroup": "0::/a.slice/b.scope\n", "/sys/fs/cgroup/a.slice/b.scope/memory.max": "max\n",
        "/sys/fs/cgroup/a.slice/memory.max": "68719476736\n", "/sys/fs/cgroup/memory.max": "137438953472\n",
    })  # fmt: skip
    assert facts_of(Replay(record)).limits.memory_limit_bytes == 64 << 30


def test_a_five_digit_domain_is_another_card() -> None:
    assert parse.bus_id("00010000:c1:00.0") != parse.bus_id("00000000:c1:00.0")


# --- causes


@pytest.mark.parametrize(
    ("words", "code", "inside", "outside"),
    [
        ("Driver/library version mismatch", 18, "reboot the host", "reboot the host"),
        ("GPU is lost", 15, "Xid", "Xid"),
        ("No devices were found", None, "nvrm", "lspci"),
        ("Driver Not Loaded", 9, "modprobe", "modprobe"),
        ("Insufficient Permissions", 4, "rootless", "group of /dev/nvidia"),
        ("Unknown Error", 999, "force-recreate", "Xid"),
        ("no NVIDIA device file (/dev/nvidiactl)", None, "--gpus all", "apt install"),
    ],
)
def test_each_cause_has_its_own_remedy(words: str, code: int | None, inside: str, outside: str) -> None:
    for given_code in (None, code):
        assert inside in nvml_causes.explained(words, True, given_code)[1]
        assert outside in nvml_causes.explained(words, False, given_code)[1]


def test_unknown_words_get_no_remedy_of_another_cause() -> None:
    said, remedy = nvml_causes.explained("Something new", True)
    assert said == "Something new" and "no known cause" in remedy


@pytest.mark.parametrize("setting", ["refuse", "ignore"])
def test_a_lost_card_refuses_the_start_unless_asked_to_go_on(setting: str) -> None:
    nvml = RECORD["nvml"]
    lost = {**nvml, "gpus": nvml["gpus"][:7], "peer_access": [], "lost": [{"index": 7, "error": "GPU is lost"}]}
    situation = survey({"DSV4_LOST_GPUS": setting}, Replay({**RECORD, "nvml": lost}))
    found = gpu_visible.CHECK.run(situation)
    assert "GPU 7: GPU is lost" in found.read and "Xid" in found.remedy
    assert found.verdict.value == ("fail" if setting == "refuse" else "warn")
    assert situation.plan is not None and len(situation.plan.placement.visible) == 4
    named = survey({"DSV4_PREFILL_GPUS": "0-1", "DSV4_DECODE_GPUS": "2-3"}, Replay({**RECORD, "nvml": lost}))
    assert gpu_visible.CHECK.run(named).verdict.value == "warn"
