"""Sets of characters as bits: 128 for ASCII, and one for all others."""

from __future__ import annotations

from collections.abc import Iterable

OTHER = 1 << 128  # stands for each character beyond ASCII
ASCII = OTHER - 1
LAST = 0x10FFFF


def union(sets: Iterable[int]) -> int:
    found = 0
    for signs in sets:
        found |= signs
    return found


def bit(sign: int) -> int:
    return 1 << sign if 0 <= sign < 128 else OTHER


def of_class(numbers: tuple[int, ...]) -> int:
    """Of a class of characters: whether it is negated, then pairs of first and last."""
    pairs = sorted(zip(numbers[1::2], numbers[2::2], strict=True))
    if numbers[0]:
        pairs = _gaps(pairs)
    return union(_span(low, high) for low, high in pairs)


def _gaps(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    found, begin = [], 0
    for low, high in pairs:
        if low > begin:
            found.append((begin, low - 1))
        begin = max(begin, high + 1)
    return [*found, (begin, LAST)] if begin <= LAST else found


def _span(low: int, high: int) -> int:
    inner = ((1 << (min(high, 127) + 1)) - 1) & ~((1 << low) - 1) & ASCII if low <= 127 else 0
    return inner | (OTHER if high > 127 else 0)
