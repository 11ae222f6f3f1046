"""The cards that tilings know: how many blocks run at once is a property of the card, not of an algorithm."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Card:
    """capability: 90 for 9.0 · sms: streaming multiprocessors · measured: the tilings' thresholds were chosen on it."""

    name: str
    capability: int
    sms: int
    measured: bool = False


H200 = Card("NVIDIA H200", 90, 132, measured=True)
# Unmeasured: nobody here has one. The thresholds are those of the H200, in blocks or, where they say how full the card
# is, in shares of its SMs; see docs/kernels/README.md.
RTX_PRO_6000 = Card("NVIDIA RTX PRO 6000 Blackwell", 120, 188)
CARDS = (H200, RTX_PRO_6000)
TARGET = RTX_PRO_6000


def of_capability(capability: int) -> Card:
    """The known card of a capability, for compiling where there is no card.

    >>> of_capability(90).sms, of_capability(120).sms
    (132, 188)
    """
    found = next((card for card in CARDS if card.capability == capability), None)
    if found is None:
        known = ", ".join(str(card.capability) for card in CARDS)
        raise ValueError(
            f"compute capability {capability}, expected one of {known}: add the card to dsv4_kernels.cards"
        )
    return found


def of_device(name: str, capability: int, sms: int) -> Card:
    """The card that answers. Its own count holds, so that a smaller sibling or a MIG slice is not overfilled.

    >>> of_device("NVIDIA H200", 90, 132) == H200
    True
    >>> of_device("NVIDIA GeForce RTX 5090", 120, 170)
    Card(name='NVIDIA GeForce RTX 5090', capability=120, sms=170, measured=False)
    """
    measured = any(card.measured and card.sms == sms and name.startswith(card.name) for card in CARDS)
    return Card(name, capability, sms, measured)
