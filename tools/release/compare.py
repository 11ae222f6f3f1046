"""What of a release's list the present tree no longer keeps, and what excuses it: docs/compatibility.md. Pure."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from packaging.version import Version


@dataclass(frozen=True, slots=True)
class Loss:
    """One promise that is not kept; `detail` is blank where the name itself is gone."""

    group: str
    name: str
    detail: str = ""
    before: Any = None
    now: Any = None

    def __str__(self) -> str:
        if not self.detail:
            return f"{self.group}: {self.name} is gone"
        return f"{self.group}: {self.name}: {self.detail} was {self.before!r} and is {self.now!r}"


@dataclass(frozen=True, slots=True)
class Break:
    """A loss that a release makes without a warning before it, with its reason and what an operator does about it."""

    version: str
    group: str
    name: str
    detail: str
    why: str
    do: str

    def excuses(self, loss: Loss) -> bool:
        """Whether this is the loss that it speaks of."""
        return (self.group, self.name, self.detail) == (loss.group, loss.name, loss.detail)


def losses(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Loss]:
    """Everything that the earlier list has and the present one lacks or says otherwise. What is new is no loss.

    >>> one = {"groups": {"states": {"A": {"readyz": 200}, "B": {}}}}
    >>> [str(loss) for loss in losses(one, {"groups": {"states": {"A": {"readyz": 503, "more": 1}}}})]
    ['states: A: readyz was 200 and is 503', 'states: B is gone']
    """
    for group, names in before["groups"].items():
        present = now["groups"].get(group, {})
        going = now.get("deprecated", {}).get(group, {})
        for name, details in names.items():
            if name not in present:
                yield Loss(group, name)
                continue
            for detail, value in details.items():
                kept = detail == "default" and name in going  # its successor has the default now
                if not kept and not holds(value, present[name].get(detail)):
                    yield Loss(group, name, detail, value, present[name].get(detail))


def holds(before: Any, now: Any) -> bool:
    """Lists may grow, up to "any"; everything else stays as it is.

    >>> holds(["a"], ["b", "a"]), holds(["a", "b"], ["a"]), holds("1m", "10m"), holds(["a"], "any")
    (True, False, False, True)
    """
    if isinstance(before, list):
        return now == "any" or (isinstance(now, list) and set(before) <= set(now))
    return bool(before == now)


def unexcused(
    before: Mapping[str, Any], now: Mapping[str, Any], breaks: Sequence[Break], version: str | None = None
) -> list[Loss]:
    """Losses that neither a deprecation, told by that release already, nor a listed break excuses.

    `version`: the release that is made; None: the next one, whichever it is.
    """
    new = [one for one in breaks if Version(one.version) > Version(before["version"])]
    return [
        loss
        for loss in losses(before, now)
        if not _warned(loss, before, version) and not any(one.excuses(loss) for one in new)
    ]


def _warned(loss: Loss, before: Mapping[str, Any], version: str | None) -> bool:
    """Whether that release said that it would go, and not later than now."""
    told = before["deprecated"].get(loss.group, {}).get(loss.name)
    return told is not None and (version is None or Version(version) >= Version(told["goes"]))


def unused(before: Mapping[str, Any], now: Mapping[str, Any], breaks: Sequence[Break]) -> list[Break]:
    """Breaks since that release that break nothing: misspelt, or undone."""
    lost = list(losses(before, now))
    new = [one for one in breaks if Version(one.version) > Version(before["version"])]
    return [one for one in new if not any(one.excuses(loss) for loss in lost)]


def breaks_of(text: str) -> list[Break]:
    """From tests/release/promises/breaks.toml: a table for each version, in it one array of tables."""
    return [
        Break(version, item["group"], item["name"], item.get("detail", ""), item["why"], item["do"])
        for version, items in tomllib.loads(text).items()
        for item in items
    ]
