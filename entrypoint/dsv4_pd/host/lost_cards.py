"""Cards that can't be asked, in words: which, why, what to do. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from dsv4_pd.host.facts import LostGpu
from dsv4_pd.host.nvml_causes import explained, remedies


def told(lost: Iterable[LostGpu], in_container: bool) -> tuple[str, str]:
    """(which cards do not answer and why, what to do).

    >>> told([LostGpu(2, "GPU is lost", 15)], True)[0]
    'GPU 2: GPU is lost: the card fell off the PCIe bus (Xid 79)'
    """
    found = tuple(lost)
    said = "; ".join(f"GPU {card.index}: {explained(card.words, in_container, card.code)[0]}" for card in found)
    return said, remedies(((card.words, card.code) for card in found), in_container)
