"""Lists of GPUs as people write them, in one spelling: indexes, UUIDs or their starts, PCI addresses. Pure.

    0,1    0 1    [0, 1]    "0","1"    0-3    GPU-8932f937-...    0000:c1:00.0    c1:00    device=0,1

What names no card of this host by itself (`all`, `none`, a count, a MIG slice) is refused here, as a setting: it must
never look like missing hardware.
"""

from __future__ import annotations

import re
from typing import Any

ACCEPTS = (
    "comma-separated GPUs: an index, a range such as 0-3, a UUID or its start, or a PCI address; "
    "blank to choose by topology"
)
_HIGHEST = 255  # no host has more cards
_PREFIX = re.compile(r"(?:--gpus[= ]|gpus?=|devices?=|nvidia\.com/gpu=)+", re.IGNORECASE)
# One number behind these is how many cards, as Docker and Slurm write it; `device=` and CDI's names name one.
_COUNT = re.compile(r"(?:--gpus[= ]|gpus?=)\s*[\"']*[0-9]+[\"']*", re.IGNORECASE)
_INDEX = re.compile(r"[0-9]{1,3}")
_RANGE = re.compile(r"([0-9]{1,3})-([0-9]{1,3})")
# Digits alone are a number, and so no UUID, unless something says that they are.
_UUID = re.compile(r"(?:GPU-|(?![0-9]+$))[0-9a-f]{4,8}(?:-[0-9a-f]{0,12}){0,4}", re.IGNORECASE)
_PCI = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-7]))?", re.IGNORECASE)
_ALL = "DSV4_PREFILL_GPUS and DSV4_DECODE_GPUS share the cards, so no role has all of them"


def read(value: Any) -> tuple[str, ...]:
    """The cards that a list names, each in one spelling.

    >>> read("[0, 01]"), read("0-2"), read("device=4,5"), read("C1:00")
    (('0', '1'), ('0', '1', '2'), ('4', '5'), ('0000:c1:00.0',))

    Raises:
        ValueError: with what is accepted, and why the part is not.
    """
    if not isinstance(value, str):
        if isinstance(value, tuple | list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        raise ValueError
    text = value.strip("[](){} ")
    if _COUNT.fullmatch(text):
        raise ValueError(f"{ACCEPTS} ({text!r} counts cards, and this names them)")
    text = _PREFIX.sub("", text)
    if re.search(r"^[,;]|[,;]\s*[,;]|[,;]$", text):  # "$A,$B" with one of them unset would choose other cards
        raise ValueError(f"{ACCEPTS} (an entry is empty)")
    parts = [part.strip("\"'") for part in re.split(r"[,;\s]+", text)]
    return tuple(card for part in parts if part for card in _cards(_PREFIX.sub("", part)))


def _cards(part: str) -> tuple[str, ...]:
    if _INDEX.fullmatch(part) and int(part) <= _HIGHEST:
        return (str(int(part)),)
    if found := _RANGE.fullmatch(part):
        first, last = int(found[1]), int(found[2])
        if first <= last <= _HIGHEST:
            return tuple(str(number) for number in range(first, last + 1))
    if found := _PCI.fullmatch(part):
        domain, bus, device, function = found.groups()
        return (f"{int(domain or '0', 16):04x}:{bus}:{device}.{function or 0}".lower(),)
    if _UUID.fullmatch(part):
        return (part,)
    raise ValueError(f"{ACCEPTS} ({_reason(part)})")


def _reason(part: str) -> str:
    """Why a part names no card.

    >>> _reason("none"), _reason("1+1")
    ("'none' hides all cards", "'1+1' counts cards, and this names them")
    """
    word = part.lower()
    if word == "all":
        return f"{part!r}: {_ALL}"
    if word in ("none", "void", "no", "-1", "nodevfiles"):
        return f"{part!r} hides all cards"
    if word.startswith("mig-") or re.fullmatch(r"[0-9]+:[0-9]+", word):
        return f"{part!r}: MIG slices can't be used"
    if re.fullmatch(r"[0-9]+[+x][0-9]+|(?:gpu|count)[:=][0-9]+", word):
        return f"{part!r} counts cards, and this names them"
    return f"{part!r} names no GPU"
