"""Errors that the driver reports of a card (Xid), and which of them only a reset fixes. Pure data and words.

After NVIDIA's Xid catalogue (docs.nvidia.com/deploy/xid-errors). Others are told by their number.
"""

from __future__ import annotations

from dataclasses import dataclass

CATALOGUE = "docs.nvidia.com/deploy/xid-errors"
RESET = "reset the card (nvidia-smi --gpu-reset -i N) or reboot the host; if it comes back, replace the card"


@dataclass(frozen=True, slots=True)
class Xid:
    """`broken`: the card computes nothing, or nothing right, until it is reset."""

    meaning: str
    broken: bool = False


XIDS = {
    13: Xid("a kernel caused an exception"),
    31: Xid("a kernel touched memory that is not its own"),
    43: Xid("a process's work on the card was stopped"),
    45: Xid("a process's work was cleaned up after another error"),
    48: Xid("uncorrectable (double-bit) memory error", broken=True),
    61: Xid("the card's own controller warned"),
    62: Xid("the card's own controller halted", broken=True),
    63: Xid("a memory row is to be remapped at the next reset"),
    64: Xid("a memory row could not be remapped", broken=True),
    69: Xid("a kernel caused an exception in the graphics engine"),
    74: Xid("an NVLink failed", broken=True),
    79: Xid("the card fell off the PCIe bus", broken=True),
    92: Xid("many correctable memory errors"),
    94: Xid("uncorrectable memory error, contained to one process"),
    95: Xid("uncorrectable memory error that could not be contained", broken=True),
    109: Xid("a context switch on the card timed out"),
    119: Xid("the card's system processor (GSP) does not answer", broken=True),
    120: Xid("the card's system processor (GSP) failed", broken=True),
    140: Xid("unrecovered memory error", broken=True),
    143: Xid("the card could not be initialised", broken=True),
    154: Xid("the driver asks for a recovery of the card"),
}


def told(uuid: str, number: int) -> str:
    """One error in words.

    >>> told("GPU-1", 79)
    'GPU GPU-1: Xid 79, the card fell off the PCIe bus'
    """
    known = XIDS.get(number)
    return f"GPU {uuid}: Xid {number}, {known.meaning if known else f'see {CATALOGUE}'}"


def rows_failed(uuid: str) -> str:
    """What NVML says for as long as a faulty memory row has no spare: Xid 64, which may be older than this guard."""
    return f"GPU {uuid}: {XIDS[64].meaning} (NVML: row remapping failed); {RESET}"


def broken(number: int) -> bool:
    """Whether only a reset fixes it."""
    return number in XIDS and XIDS[number].broken
