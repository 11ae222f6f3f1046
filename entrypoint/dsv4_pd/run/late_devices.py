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
    """Why GPUs that are asked for may only be late; None when all are here, or will not come."""
    if not situation.on_gpus:
        return None
    up = uptime(machine.text("/proc/uptime") or "")
    if up is None or up > BOOTING_S:
        return None
    facts = situation.facts
    listed = len(facts.gpus) + len(facts.lost_gpus)
    coming = [card for card in facts.unlisted_gpus if _may_come(card.driver, listed, facts.software.container)]
    if not coming or len(facts.unlisted_gpus) <= len(facts.lost_gpus):  # a lost card is on the bus, and stays lost
        return None
    shown = len(facts.gpus) + len(facts.unlisted_gpus)
    return f"the PCI bus shows {shown}, the driver {listed or 'none'}, and the host booted {up:.0f} s ago"


def _may_come(driver: str | None, listed: int, container: str | None) -> bool:
    """Whether the driver may list a card later. One that another driver has (vfio-pci) will not come; of those that it
    has already, a container may have been given only some.
    """
    if driver is None:
        return True
    return driver == "nvidia" and (container is None or not listed)


def uptime(text: str) -> float | None:
    """Seconds since the host's boot, from /proc/uptime.

    >>> uptime("35.11 110.02\\n"), uptime("x")
    (35.11, None)
    """
    found = re.match(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) ", text)
    return float(found[1]) if found else None
