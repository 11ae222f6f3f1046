"""What planning has to say besides the plan: typed, so that nothing reads a kind back out of a sentence."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class NoticeKind(enum.Enum):
    """What a notice is about; the subject is a GPU's UUID, a member or a setting."""

    CARD_UNFIT = enum.auto()  # a GPU that can't carry a role
    CARD_SPARE = enum.auto()  # a GPU that could, and is not needed
    CARD_BUSY = enum.auto()  # a GPU of the plan that another process uses
    UNBOUND = enum.auto()  # a role that is bound to no NUMA node
    NODE_EXCLUDED = enum.auto()  # a node of the role's GPUs whose CPUs the cpuset withholds
    SOCKETS_CROSSED = enum.auto()  # a role whose GPUs sit on several sockets
    MEMORY_ELSEWHERE = enum.auto()  # a role that takes its memory from another node
    MODEL_ABSENT = enum.auto()  # a model that `serve` fetches before it starts servers
    MODEL_UNPINNED = enum.auto()  # one of which the commit, and so the folder, is known only then
    MODEL_UNREAD = enum.auto()  # one whose config.json decides flags, and is not here
    LINK_OVER_TCP = enum.auto()  # the KV cache crosses TCP between hosts
    DEPRECATED = enum.auto()  # a setting that has another name now


NUMA_KINDS = frozenset(
    {NoticeKind.UNBOUND, NoticeKind.NODE_EXCLUDED, NoticeKind.SOCKETS_CROSSED, NoticeKind.MEMORY_ELSEWHERE}
)


@dataclass(frozen=True, slots=True)
class Notice:
    """One remark for the operator; the text may be reworded, the rest is what decisions are made by."""

    kind: NoticeKind
    subject: str
    text: str
