"""At host boot we may be started before the driver has made its device files: wait for them, within bounds."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from dsv4_pd.host.machine import Machine
from dsv4_pd.plan.situation import Situation

BOOTING_S = 600.0  # so long after the host's boot a driver may still be loading
WAIT_S = 60.0  # cards of which eight need initializing take half of it without persistence mode
TICK_S = 2.0
_PCI = "/sys/bus/pci/devices"


def survey_when_there(
    look: Callable[[], Situation],
    machine: Machine,
    say: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> Situation:
    """The situation, looked at again while its cards are only late. Never longer than WAIT_S."""
    found, waited = look(), 0.0
    while waited < WAIT_S and (reason := late(found, machine)):
        if not waited:
            say(f"waiting up to {WAIT_S:.0f} s for the GPUs: {reason}")
        sleep(TICK_S)
        waited += TICK_S
        found = look()
    return found


def late(situation: Situation, machine: Machine) -> str | None:
    """Why the GPUs that are asked for may only be late; None when they are here, or will not come."""
    if situation.plan is not None or not situation.on_gpus or situation.facts.gpus:
        return None
    up = uptime(machine.text("/proc/uptime") or "")
    cards = sum(is_card(machine, name) for name in machine.names(_PCI))
    if up is None or up > BOOTING_S or not cards:
        return None
    return f"the PCI bus shows {cards}, the driver none, and the host booted {up:.0f} s ago"


def is_card(machine: Machine, name: str) -> bool:
    """Whether a PCI device is an NVIDIA display or 3D controller."""
    vendor = (machine.text(f"{_PCI}/{name}/vendor") or "").strip()
    return vendor == "0x10de" and (machine.text(f"{_PCI}/{name}/class") or "").startswith("0x03")


def uptime(text: str) -> float | None:
    """Seconds since the host's boot, from /proc/uptime.

    >>> uptime("35.11 110.02\\n"), uptime("x")
    (35.11, None)
    """
    found = re.match(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) ", text)
    return float(found[1]) if found else None
