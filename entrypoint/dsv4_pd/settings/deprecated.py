"""Names that will go: what replaces each, which release began to say so, and the first one that may be without it.

docs/compatibility.md is the promise. A setting's old name is still read (`text.given`), and told by a notice; a route's
answer names the new one; a command says it on standard error. An entry stands here for at least one minor version.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from dsv4_pd.settings import layout


class Kind(StrEnum):
    """What a name is the name of; the groups of what is promised."""

    SETTING = "settings"
    OPS_ROUTE = "ops_routes"
    API_ROUTE = "api_routes"
    METRIC = "metrics"
    FIELD = "health_fields"
    COMMAND = "commands"


@dataclass(frozen=True, slots=True)
class Deprecated:
    """One name that will go. `new` is what to write instead."""

    kind: Kind
    old: str
    new: str
    since: str
    goes: str

    def told(self, value: str | None = None) -> str:
        """What the operator reads; `value` is what a setting was set to.

        >>> Deprecated(Kind.SETTING, "DSV4_A", "DSV4_B", "0.2.0", "0.3.0").told("1")
        'DSV4_A is deprecated and will be removed in 0.3.0: use DSV4_B=1'
        """
        new = f"{self.new}={value}" if value else self.new
        return f"{self.old} is deprecated and will be removed in {self.goes}: use {new}"


def _same(old: str, new: str) -> bool:
    return old == new


@dataclass(frozen=True, slots=True)
class Renamed(Deprecated):
    """A setting with another name now. Its text must mean the same under both, to the new one's rule.

    `words`: what the old name knew, lower case; empty: whatever the new one takes. `agrees`: whether two texts, in
    lower case, say the same where both names are set; otherwise the start is refused.
    """

    words: tuple[str, ...] = ()
    agrees: Callable[[str, str], bool] = _same

    def known(self, text: str) -> bool:
        """Whether the old name took this text."""
        return not self.words or text.lower() in self.words


def _one_kind(mode: str, text: str) -> bool:
    try:
        return mode == layout.parse(text).kind
    except ValueError:
        return True  # the layout's own problem, which is told as such


SETTINGS: tuple[Renamed, ...] = (
    Renamed(Kind.SETTING, "DSV4_MODE", "DSV4_LAYOUT", "0.2.0", "0.3.0", words=("pd", "single"), agrees=_one_kind),
)
LIVE = Deprecated(Kind.OPS_ROUTE, "GET /live", "GET /load", "0.2.0", "0.3.0")
PD_VS_SINGLE = Deprecated(Kind.COMMAND, "bench pd-vs-single", "bench layouts --layouts pd,single", "0.2.0", "0.3.0")


def everything() -> tuple[Deprecated, ...]:
    """All names that will go."""
    return (*SETTINGS, LIVE, PD_VS_SINGLE)


def old_names(new: str) -> tuple[str, ...]:
    """The names that a setting had.

    >>> old_names("DSV4_LAYOUT"), old_names("DSV4_PORT")
    (('DSV4_MODE',), ())
    """
    return tuple(one.old for one in SETTINGS if one.new == new)
