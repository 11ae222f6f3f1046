"""Cards that are only late at boot are waited for; cards that will not come are not."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from dsv4_pd.host.machine import Replay
from dsv4_pd.plan.situation import Situation
from dsv4_pd.plan.survey import survey_facts
from dsv4_pd.run import late_devices
from support.plans import eight_cards, no_gpu

CARD = "/sys/bus/pci/devices/0000:c1:00.0"


def machine(uptime: str = "35.11 1.0\n", vendor: str = "0x10de\n") -> Replay:
    files = {"/proc/uptime": uptime, f"{CARD}/vendor": vendor, f"{CARD}/class": "0x030200\n"}
    return Replay({"files": files, "folders": {"/sys/bus/pci/devices": ["0000:c1:00.0"]}, "nvml": {}})


def look(answers: list[Situation], environ: dict[str, str] | None = None) -> Situation:
    return answers.pop(0) if len(answers) > 1 else answers[0]


NONE = survey_facts({}, no_gpu())
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


@pytest.mark.parametrize("box", [machine("5000.0 1\n"), machine(vendor="0x8086\n"), machine(uptime="?")])
def test_nothing_is_waited_for_that_will_not_come(box: Replay) -> None:
    assert late_devices.late(NONE, box) is None


def test_the_demo_waits_for_no_card() -> None:
    assert late_devices.late(survey_facts({"DSV4_PROFILE": "demo-cpu"}, no_gpu()), machine()) is None


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
