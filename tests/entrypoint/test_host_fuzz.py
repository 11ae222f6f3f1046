"""Parsers of host facts: whatever a file holds, no traceback, and of several entries the one that counts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml
import pytest
from dsv4_pd.doctor.catalogue import examine
from dsv4_pd.doctor.checks.driver import gpu_visible
from dsv4_pd.doctor.checks.settings.proxies import excepts_loopback
from dsv4_pd.host import nvml_causes, parse, system, unit_files
from dsv4_pd.host.capture import to_json
from dsv4_pd.host.facts import Gpu, HostFacts
from dsv4_pd.host.machine import Replay
from dsv4_pd.host.read import facts_of
from dsv4_pd.plan.survey import survey
from dsv4_pd.run import late_devices
from dsv4_pd.run.guard.watch import endings
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

HOST = Path(__file__).parents[1] / "hosts" / "eight-two-sockets"
RECORD: dict[str, Any] = json.loads((HOST / "machine.json").read_text(encoding="utf-8"))
PIECES = st.sampled_from([
    "0-3", "-", ",", ":", "9" * 5000, "٣", "max", "kB", "\0", "0::/", "/dev/shm", "size=", "\n", " ", "MemTotal:",
    "unlimited", "pci", "..", "ExecStart=", "sglang", "http://", "0x", "-1", "\udcff",
])  # fmt: skip
TEXT = st.one_of(st.text(max_size=40), st.lists(PIECES, max_size=12).map("".join))


def ended(text: str) -> None:
    """A log of supervisord's with the text as each of its numbers, and whatever else it holds, as words."""
    for how in ("(exit status {}; not expected)", "(terminated by signal {}; not expected)", "{}"):
        if ending := endings.last_of(f"exited: decode {how.format(text)}", "decode"):
            endings.in_words(ending)


PARSERS: dict[str, Callable[[str], object]] = {
    "number": parse.number, "cpu_list": parse.cpu_list, "meminfo": lambda t: parse.meminfo(t, "MemTotal"),
    "status_list": lambda t: parse.status_list(t, "Cpus_allowed_list"),
    "limits": lambda t: parse.limits(t, "Max open files"),
    "shm_mount": parse.shm_mount, "cgroup_path": parse.cgroup_path, "memory_max": parse.memory_max,
    "cpu_max": parse.cpu_max, "bus_id": parse.bus_id, "bridges": parse.bridges, "unit_command": unit_files.unit_command,
    "acs": lambda t: parse.acs_request_redirect(t.encode("utf-8", "surrogatepass") * 9), "cpu_model": parse.cpu_model,
    "iommu_mode": lambda t: parse.iommu_mode((t,), True, t), "command_ports": unit_files.command_ports,
    "selinux": lambda t: parse.selinux(t, t), "user_namespace": parse.user_namespace,
    "uptime": late_devices.uptime, "no_proxy": excepts_loopback, "ending": ended,
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
        assert facts.lost_gpus[0].index == 2 and facts.unread


def test_a_broken_card_is_named_by_the_driver_s_index() -> None:
    cards = [dict(card) for card in reversed(RECORD["nvml"]["gpus"])]
    cards[0] |= {"uuid": None}
    facts = facts_of(Replay({**RECORD, "nvml": {**RECORD["nvml"], "gpus": cards}}))
    assert [card.index for card in facts.lost_gpus] == [7] and facts.unread[0].startswith("GPU 7 (")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2**70) | st.floats() | st.sampled_from(["", "x", "-1", "GPU-1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["index", "pid", "error"]), inner),
    max_leaves=4,
)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value inside a value, its own included."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(place for key, item in inside for place in places(item, (*at, key)))]


def with_other(value: Any, at: tuple[Any, ...], other: Any) -> Any:
    if not at:
        return other
    copied: Any = dict(value) if isinstance(value, dict) else list(value)
    copied[at[0]] = with_other(copied[at[0]], at[1:], other)
    return copied


NVML_PLACES = places(RECORD["nvml"])
OTHER_KINDS = ("links", "folders", "bytes", "numa", "clock")
OTHER_PLACES = [place for kind in OTHER_KINDS for place in places(RECORD.get(kind), (kind,))]


def judged(record: dict[str, Any]) -> HostFacts:
    """The facts of a machine; everything that reads them was asked, and nothing broke."""
    situation = survey({"DSV4_MODEL": "/models/none"}, Replay(record))
    for check, finding in examine(situation):
        assert not finding.read.startswith(f"check {check.name} failed"), finding.read
    json.loads(to_json(situation.facts))
    return situation.facts


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(place=st.sampled_from(NVML_PLACES), other=JSON)
@example(("gpus",), -1)
@example(("gpus",), True)
@example(("error",), -1)
@example((), None)
@example(("driver_version",), 580)
@example(("gpus", 2, "display"), [1])
@example(("gpus", 2, "nvlinks"), {})
@example(("gpus", 2, "memory_used"), "12")
@example(("gpus", 2, "pcie_generation"), "5")
def test_no_answer_of_nvml_breaks_a_reader_or_a_check(place: tuple[Any, ...], other: Any) -> None:
    facts = judged({**RECORD, "nvml": with_other(RECORD["nvml"], place, other)})
    if place[:1] == ("gpus",) and len(place) > 1:
        assert len(facts.gpus) >= 7 and len(facts.gpus) + len(facts.lost_gpus) == 8


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(place=st.sampled_from(OTHER_PLACES), other=JSON)
def test_no_link_folder_or_byte_breaks_a_reader_or_a_check(place: tuple[Any, ...], other: Any) -> None:
    facts = judged({**RECORD, place[0]: with_other(RECORD.get(place[0]), place[1:], other)})
    assert len(facts.gpus) == 8 and not facts.unread


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.one_of(TEXT.map(lambda text: text.encode("utf-8", "surrogatepass")), st.binary(max_size=60)))
@example(b"7 (sglang::scheduler) S")
@example(b"7 (a")
@example(b")")
@example(b"7 (a) Z" + b" 0" * 48 + b" " + b"9" * 5000)
@example(b"7 (a) Z" + b" 0" * 48 + b" x")
def test_no_process_table_breaks_the_guard_s_reader(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    proc = tmp_path_factory.getbasetemp()
    (proc / "7").mkdir(exist_ok=True)
    (proc / "7/stat").write_bytes(data)
    assert endings.name_of(7, proc) in ("scheduler", "scheduler or detokenizer", "detokenizer")
    assert endings.of_worker(7, "scheduler", proc).startswith("its scheduler ")


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


# cause -> (NVML's own words, code, part of the remedy in a container, on the host)
REMEDIES = {
    "driver updated under its module": ("Driver/library version mismatch", 18, "reboot the host", "reboot the host"),
    "card off the bus": ("GPU is lost", 15, "Xid", "nvidia-smi --gpu-reset"),
    "card gone": ("Not Found", 6, "nvidia-smi --gpu-reset", "Xid"),
    "card needs a reset": ("GPU requires restart", 16, "--gpu-reset", "--gpu-reset"),
    "devices revoked": ("Unknown Error", 999, "re-create the container", "Xid"),
    "module not loaded": ("Driver Not Loaded", 9, "on the host: sudo modprobe", "modprobe"),
    "library not there": ("NVML Shared Library Not Found", 12, "nvidia-ctk runtime configure", "apt install"),
    "no permission": ("Insufficient Permissions", 4, "rootless", "group of /dev/nvidia"),
    "blocked by the operating system": (
        "The operating system has blocked the request.", 17, "container_use_devices", "ausearch"
    ),
    "card without power or interrupts": (
        "Insufficient External Power", None, "on the host: check the card's power", "power cables"
    ),
    "corrupted infoROM": ("infoROM is corrupted", 14, "replaced", "replaced"),
    "card hangs": ("NVML did not answer within 30 s", 10, "--gpu-reset", "--gpu-reset"),
    "host memory": ("Insufficient Memory", 20, "the container's limit", "free -h"),
    "no card listed": ("No devices were found", None, "nvrm", "lspci"),
    "no device file": ("no NVIDIA device file (/dev/nvidiactl)", None, "--gpus all", "apt install"),
    "reader ended": ("the NVML reader ended with 139: x", None, "another version", "reinstall"),
}  # fmt: skip


def test_every_cause_is_tried() -> None:
    assert list(REMEDIES) == [cause.name for cause in nvml_causes.CAUSES]


@pytest.mark.parametrize(("name", "words", "code", "inside", "outside"), [(n, *row) for n, row in REMEDIES.items()])
def test_each_cause_has_its_own_remedy(name: str, words: str, code: int | None, inside: str, outside: str) -> None:
    for given_code in (None, code):
        cause = nvml_causes.cause_of(words, given_code)
        assert cause is not None and cause.name == name and cause.source
        assert inside in nvml_causes.explained(words, True, given_code)[1]
        assert outside in nvml_causes.explained(words, False, given_code)[1]
    if code is not None:
        assert nvml_causes.cause_of("in other words", code) is cause


def test_pynvml_s_own_words_and_its_codes_have_the_same_causes() -> None:
    """Its table, but for codes whose cause we know by its code alone."""
    told = {int(code): str(pynvml.NVMLError(code)) for code in pynvml.NVMLError._errcode_to_string}
    known = {cause.code: cause for cause in nvml_causes.CAUSES if cause.code is not None}
    assert known.keys() <= told.keys()
    for code, words in told.items():
        assert nvml_causes.cause_of(words) is known.get(code) or code not in known, words


@pytest.mark.parametrize("words", ["Argument Version Mismatch", "Function Not Found", "the page was not found"])
def test_words_that_only_look_like_a_cause_are_none(words: str) -> None:
    assert nvml_causes.cause_of(words, 25) is None


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
