"""What the dialects share: a request as it is passed on, and how its answer changes on the way back. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from dsv4_pd.plan.front.config import RouterName
from dsv4_pd.run.front import sse
from dsv4_pd.run.front.errors import Refusal

Body = dict[str, Any]
Change = Callable[[Body], Body]
NO_PARAMETERS: Body = {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True)
class Facts:
    """What the front knows of the appliance. `created`: epoch seconds."""

    model: str
    router: RouterName
    most_output: int | None
    created: int
    context_length: int | None = None  # tokens of prompt and answer together; None: not known


class Events:
    """A change of a stream: `event` makes none, one or several of each; `close` adds what must come before the end."""

    def event(self, data: Body) -> Iterable[Body]:
        """What becomes of one event; it may be changed in place."""
        return (data,)

    def block(self, block: bytes) -> bytes:
        """Every event of a block of whole ones; what is no JSON object passes as it is."""
        return b"".join(self._one(event) for event in sse.events(block))

    def _one(self, event: bytes) -> bytes:
        name, data = sse.parsed(event)
        if not data.startswith(b"{"):
            return event
        out = self.event(orjson.loads(data))
        return b"".join(sse.built(_name(name, item), orjson.dumps(item)) for item in out)


def _name(name: bytes, data: Body) -> bytes:
    """An event's name follows its type, where the dialect names events."""
    kind = data.get("type")
    return kind.encode() if name and isinstance(kind, str) else name


class Chain(Events):
    """Several changes, one after the other."""

    def __init__(self, changes: Iterable[Events]) -> None:
        self._changes = tuple(changes)

    def event(self, data: Body) -> Iterable[Body]:
        """Each change sees what the one before it left."""
        found = [data]
        for change in self._changes:
            found = [out for item in found for out in change.event(item)]
        return found


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it is sent on. `slots`: answers that it makes; `events`: None where a stream passes as it is;
    `hide_usage`: the client did not ask for the count at a stream's end.
    """

    body: Body
    changed: bool
    stream: bool = False
    slots: int = 1
    answer: Change | None = None
    events: Callable[[], Events] | None = None
    hide_usage: bool = False


def bad(param: str, words: str) -> Refusal:
    """A 400 about one field.

    >>> str(bad("n", "found 0, expected at least 1"))
    'n: found 0, expected at least 1'
    """
    return Refusal(400, f"{param}: {words}", param=param, code="invalid_value")


def shown(value: Any) -> str:
    """What was found, for an error: a scalar itself, of anything larger its kind.

    >>> shown("loud"), shown(True), shown(None), shown([1]), shown({}), shown(0.5)
    ("'loud'", 'true', 'null', 'a list', 'an object', '0.5')
    """
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return repr(value[:60]) if isinstance(value, str) else orjson.dumps(value).decode()


def require_model(data: Body, facts: Facts) -> None:
    """The served name, filled in where a client names none; raises Refusal 404 for another."""
    asked = data.get("model")
    if asked is None or asked == "":
        data["model"] = facts.model
    elif not isinstance(asked, str):
        raise bad("model", f"found {shown(asked)}, expected a name")
    elif asked != facts.model:
        words = f"The model {asked[:200]!r} does not exist here; this server has {facts.model!r}"
        raise Refusal(404, words, param="model", code="model_not_found")


def cap(data: Body, names: tuple[str, ...], most: int | None, default: int | None = None) -> None:
    """No more output than the operator allows: a larger number becomes that one, and so does none at all where the API
    has no smaller `default`. Raises Refusal for what is no whole number, which some server might round.
    """
    if most is None:
        return
    given = [name for name in names if data.get(name) is not None]
    for name in given:
        if type(data[name]) is not int:
            raise bad(name, f"found {shown(data[name])}, expected a whole number")
        data[name] = min(data[name], most)
    if not given:
        data[names[0]] = most if default is None else min(default, most)


def drop_nulls(data: Body, kept: frozenset[str] = frozenset()) -> None:
    """A null at the top means that the field is not there: the API allows it where the routers' types do not."""
    for name in [name for name, value in data.items() if value is None and name not in kept]:
        del data[name]


def count(value: Any) -> int:
    """A number of answers, as far as it is one; what is wrong with it, the servers say.

    >>> count(3), count(None), count(-1), count("x")
    (3, 1, 1, 1)
    """
    return value if type(value) is int and value > 0 else 1


def closed_up(number: int, cut: Iterable[int]) -> int:
    """The place of a part among those that are kept: clients take its number for a place in a list.

    >>> closed_up(3, {1, 2, 5})
    1
    """
    return number - sum(1 for left_out in cut if left_out < number)


def objects(value: Any) -> list[Body]:
    """The objects of a list; whatever else is in it, the servers refuse."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
