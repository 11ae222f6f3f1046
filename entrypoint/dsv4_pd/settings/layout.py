"""How many servers of which role, over how many GPUs each: the grammar of `DSV4_LAYOUT`. Pure.

    auto | pd[:GROUP+GROUP] | replicas:GROUP | single[:TP]        GROUP = [COUNTx]TP

Without sizes they are the profile's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal, get_args

Kind = Literal["pd", "replicas", "single"]
RoleName = Literal["prefill", "decode", "single"]
ROLES: tuple[RoleName, ...] = get_args(RoleName)
PAIR_ROLES: tuple[RoleName, ...] = ("prefill", "decode")
ContainerRole = Literal["all", "prefill", "decode", "router"]
TENSOR_PARALLEL = (8, 4, 2, 1)  # must divide the model's 64 heads and 8 output groups
MOST = 9  # members of a role: the ports of further ones are ten apart (plan/placement/members.py)
AUTO = "auto"
EXPECTED = (
    "auto, pd, single, pd:PREFILL+DECODE, replicas:GROUP or single:TP, where a group is COUNTxTP or TP alone "
    "(pd:4+4, pd:2x2+2x2, replicas:4x2, single:8)"
)
_GROUP = re.compile(r"(?:([0-9]{1,3})x)?([0-9]{1,3})")


@dataclass(frozen=True, slots=True)
class Group:
    """Servers of one role that are alike. `tensor_parallel`: GPUs of each; None: as many as the profile says."""

    role: RoleName
    count: int = 1
    tensor_parallel: int | None = None

    def __str__(self) -> str:
        size = "" if self.tensor_parallel is None else str(self.tensor_parallel)
        return f"{self.count}x{size}" if self.count > 1 else size


@dataclass(frozen=True, slots=True)
class Layout:
    """What serves: a pair, more of it, or whole servers."""

    kind: Kind
    groups: tuple[Group, ...]

    def __str__(self) -> str:
        sizes = "+".join(str(group) for group in self.groups)
        return f"{self.kind}:{sizes}" if sizes.strip("+") else self.kind

    @property
    def members(self) -> tuple[tuple[RoleName, int], ...]:
        """Role and number of each server, in order; number 0 is the only one of its role.

        >>> parse("pd:2x1+1").members
        (('prefill', 1), ('prefill', 2), ('decode', 0))
        """
        return tuple(
            (group.role, index)
            for group in self.groups
            for index in (range(1, group.count + 1) if group.count > 1 else (0,))
        )


PAIR = Layout("pd", tuple(map(Group, PAIR_ROLES)))
SINGLE = Layout("single", (Group("single"),))


def member_name(role: str, index: int) -> str:
    """What a server is called: by its role where it is the only one, else with its number.

    >>> member_name("decode", 0), member_name("prefill", 2)
    ('decode', 'prefill-2')
    """
    return f"{role}-{index}" if index else role


def parse(text: str) -> Layout:
    """A layout from its text.

    Raises:
        ValueError: what it should look like, or why such a one can't be.

    >>> str(parse("PD:1x4+4")), str(parse("replicas:4x2")), str(parse("replicas:8"))
    ('pd:4+4', 'replicas:4x2', 'single:8')
    """
    kind, colon, sizes = text.strip().lower().partition(":")
    if not colon and kind in ("pd", "single"):
        return PAIR if kind == "pd" else SINGLE
    groups = [_group(word) for word in sizes.split("+")]
    if kind == "pd" and len(groups) == 2:
        return _pair(*groups)
    if kind == "replicas" and len(groups) == 1:
        count, size = groups[0]
        return Layout("single" if count == 1 else "replicas", (Group("single", count, size),))
    if kind == "single" and len(groups) == 1:
        count, size = groups[0]
        if count > 1:
            raise ValueError(f"one server, as in single:{size}; {count} of them are replicas:{count}x{size}")
        return Layout("single", (Group("single", 1, size),))
    raise ValueError(EXPECTED)


def _pair(prefill: tuple[int, int], decode: tuple[int, int]) -> Layout:
    if prefill[1] != decode[1]:
        raise ValueError(
            f"as many GPUs for each decode as for each prefill, not {prefill[1]} and {decode[1]}: "
            "the KV cache is handed over rank by rank"
        )
    return Layout("pd", (Group("prefill", *prefill), Group("decode", *decode)))


def _group(word: str) -> tuple[int, int]:
    """(count, tensor parallel size) of one group."""
    found = _GROUP.fullmatch(word.strip())
    if found is None:
        raise ValueError(EXPECTED)
    count, size = int(found[1] or 1), int(found[2])
    if not 1 <= count <= MOST:
        raise ValueError(f"1 to {MOST} servers of a role, not {count}")
    if size not in TENSOR_PARALLEL:
        raise ValueError(f"1, 2, 4 or 8 GPUs a server, not {size}: the model's 64 heads are split evenly")
    return count, size


def read(value: Any) -> Any:
    """A setting's text; None for `auto`, and anything that is no text as it is."""
    if not isinstance(value, str):
        return value
    return None if value.strip().lower() == AUTO else parse(value)
