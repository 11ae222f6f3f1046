"""Cards that are only late at boot are waited for; cards that will not come are not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from dsv4_pd.doctor.base import CheckVerdict
from dsv4_pd.doctor.checks.driver import gpu_visible
from dsv4_pd.host.facts import HostFacts, LostGpu, UnlistedGpu
from dsv4_pd.host.machine import Replay
from dsv4_pd.host.read import facts_of
from dsv4_pd.plan.situation import Situation
from dsv4_pd.plan.survey import survey_facts
from dsv4_pd.run import late_devices
from support.plans import eight_cards, no_gpu

HOSTS = Path(__file__).parents[1] / "hosts"
PCI = "/sys/bus/pci/devices"
CARD = "0000:c3:00.0"


def machine(uptime: str = "35.11 1.0\n") -> Replay:
    return Replay({"files": {"/proc/uptime": uptime}, "nvml": {}})


def on_the_bus(facts: HostFacts, *drivers: str | None, container: str | None = None) -> Situation:
    """The plan for a machine with so many further cards, by the kernel driver that has each."""
    unlisted = tuple(UnlistedGpu(f"0000:{0xC3 + number:02x}:00.0", driver) for number, driver in enumerate(drivers))
    software = replace(facts.software, container=container)
    return survey_facts({}, replace(facts, unlisted_gpus=unlisted, software=software))


def look(answers: list[Situation], environ: dict[str, str] | None = None) -> Situation:
    return answers.pop(0) if len(answers) > 1 else answers[0]


NONE = on_the_bus(no_gpu(), None)
ALL = survey_facts({}, eight_cards())


def test_late_cards_are_waited_for_and_said_once() -> None:
    said: list[str] = []
    slept: list[float] = []
    answers = [NONE, NONE, ALL]
    found = late_devices.survey_when_there(lambda: look(answers), machine(), said.append, slept.append)
    assert found is ALL and slept == [late_devices.TICK_S] * 2
    assert said == [
        "waiting up to 60 s for the GPUs: the PCI bus shows 1, the driver none, and the host booted 35 s ago"
    ]


def test_the_wait_has_an_end() -> None:
    slept: list[float] = []
    assert late_devices.survey_when_there(lambda: NONE, machine(), print, slept.append) is NONE
    assert sum(slept) == late_devices.WAIT_S


@pytest.mark.parametrize("uptime", ["5000.0 1\n", "?", ""])
def test_nothing_is_waited_for_long_after_the_boot(uptime: str) -> None:
    assert late_devices.late(NONE, machine(uptime)) is None


@pytest.mark.parametrize(
    ("listed", "drivers", "container", "waits"),
    [
        (0, [None], None, True),
        (0, ["nvidia"], "docker", True),  # its device files may be late
        (0, [], None, False),
        (0, ["vfio-pci"], None, False),  # a virtual machine's
        (4, [None] * 4, None, True),  # four would start the smaller profile, silently
        (4, [None] * 4, "docker", True),
        (4, ["nvidia"] * 4, None, True),
        (4, ["nvidia"] * 4, "docker", False),  # the container was given four of eight
        (4, ["vfio-pci"] * 4, None, False),
        (8, [], None, False),
    ],
)
def test_who_is_waited_for(listed: int, drivers: list[str | None], container: str | None, waits: bool) -> None:
    found = on_the_bus(eight_cards(listed) if listed else no_gpu(), *drivers, container=container)
    assert bool(late_devices.late(found, machine())) is waits


def test_a_lost_card_is_not_waited_for() -> None:
    facts = replace(eight_cards(7), lost_gpus=(LostGpu(7, "GPU is lost", 15),))
    assert late_devices.late(on_the_bus(facts, "nvidia"), machine()) is None
    assert late_devices.late(on_the_bus(facts, "nvidia", "nvidia"), machine()) is not None


def test_some_of_the_cards_are_not_all() -> None:
    said: list[str] = []
    answers = [on_the_bus(eight_cards(4), *[None] * 4), ALL]
    assert late_devices.survey_when_there(lambda: look(answers), machine(), said.append, lambda _: None) is ALL
    assert said == ["waiting up to 60 s for the GPUs: the PCI bus shows 8, the driver 4, and the host booted 35 s ago"]


def test_the_demo_waits_for_no_card() -> None:
    facts = replace(no_gpu(), unlisted_gpus=(UnlistedGpu(CARD, None),))
    assert late_devices.late(survey_facts({"DSV4_PROFILE": "demo-cpu"}, facts), machine()) is None


@pytest.mark.parametrize(
    ("vendor", "kind", "link", "found"),
    [
        ("0x10de\n", "0x030200\n", None, (UnlistedGpu(CARD, None),)),
        ("0x10de\n", "0x030000\n", "/sys/bus/pci/drivers/vfio-pci", (UnlistedGpu(CARD, "vfio-pci"),)),
        ("0x10de\n", "0x040300\n", None, ()),  # its sound
        ("0x1a03\n", "0x030000\n", None, ()),  # the board's own display
    ],
)
def test_cards_on_the_bus_that_the_driver_does_not_list(
    vendor: str, kind: str, link: str | None, found: tuple[UnlistedGpu, ...]
) -> None:
    record = json.loads((HOSTS / "eight-two-sockets" / "machine.json").read_text(encoding="utf-8"))
    known = [card["pci_bus_id"].removeprefix("0000").lower() for card in record["nvml"]["gpus"]]
    record["folders"][PCI] = sorted([CARD, *known])
    record["files"] |= {f"{PCI}/{address}/class": "0x030200\n" for address in known}
    record["files"] |= {f"{PCI}/{address}/vendor": "0x10de\n" for address in known}
    assert CARD not in known
    record["files"] |= {f"{PCI}/{CARD}/vendor": vendor, f"{PCI}/{CARD}/class": kind}
    record["links"] |= {f"{PCI}/{CARD}/driver": link} if link else {}
    facts = facts_of(Replay(record))
    assert facts.unlisted_gpus == found and not facts.unread


@pytest.mark.parametrize(
    ("driver", "container", "verdict"),
    [
        (None, None, CheckVerdict.WARN),
        (None, "docker", CheckVerdict.WARN),
        ("nvidia", None, CheckVerdict.WARN),
        ("nvidia", "docker", CheckVerdict.OK),
        ("vfio-pci", None, CheckVerdict.OK),
    ],
)
def test_a_card_that_the_driver_does_not_list_is_named(
    driver: str | None, container: str | None, verdict: CheckVerdict
) -> None:
    found = gpu_visible.CHECK.run(on_the_bus(eight_cards(7), driver, container=container))
    assert found.verdict is verdict
    if verdict is CheckVerdict.WARN:
        assert "shows 8 NVIDIA cards, the driver lists 7" in found.read and CARD in found.read


PLAIN_C = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}


@pytest.mark.parametrize(
    "more",
    [{"PYTHONIOENCODING": "ascii"}, PLAIN_C, {"LC_ALL": "tr_TR.UTF-8"}, {"TZ": "Asia/Kathmandu"}, {"TZ": ":nonsense"}],
)
def test_plan_prints_in_any_locale(more: dict[str, str]) -> None:
    environ = {"PATH": os.environ["PATH"], "DSV4_PROFILE": "demo-cpu", **more}
    done = subprocess.run([sys.executable, "-m", "dsv4_pd", "plan"], env=environ, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()[-500:]
    assert b"profile: demo-cpu" in done.stdout
