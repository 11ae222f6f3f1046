"""Answers of chats and completions, in the form of OpenAI's published schema. Pure; each works in place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dsv4_pd.run.front.dialects import legacy
from dsv4_pd.run.front.dialects.base import Body, Events, objects


def whole(data: Body, *, one_call: bool = False, old: bool = False) -> Body:
    """A chat's answer in one piece."""
    tidy(data)
    for choice in objects(data.get("choices")):
        message = choice.get("message")
        if not isinstance(message, dict):
            continue
        message.setdefault("refusal", None)
        if one_call:
            _first_call(choice, message)
        if old:
            legacy.to_message(choice)
    return data


def tidy(data: Body) -> Body:
    """Without what the engine says of itself: `metadata` is the client's own map of texts in the API."""
    metadata = data.get("metadata")
    if isinstance(metadata, dict):
        kept = {name: value for name, value in metadata.items() if not name.startswith("weight_version")}
        data["metadata"] = kept
        if not kept:
            del data["metadata"]
    usage = data.get("usage")
    if isinstance(usage, dict):
        for name in [name for name, value in usage.items() if value is None]:
            del usage[name]  # the details are objects or not there
    return data


def _first_call(choice: Body, message: Body) -> None:
    """One call where the client takes one. It is whole, even if a second one met the limit of tokens."""
    calls = message.get("tool_calls")
    if isinstance(calls, list) and len(calls) > 1:
        message["tool_calls"] = calls[:1]
        choice["finish_reason"] = "tool_calls"


def changes(*, one_call: bool, old: bool) -> Iterator[Events]:
    """What a stream with tools needs."""
    yield NoNulls()
    if one_call:
        yield FirstCall()
    if old:
        yield legacy.ToDeltas()


class NoNulls(Events):
    """A delta holds what is new; the engine's have a null for each name, which typed clients refuse."""

    def event(self, data: Body) -> Iterable[Body]:
        """One chunk."""
        if data.get("usage", 1) is None:
            del data["usage"]
        for choice in objects(data.get("choices")):
            delta = choice.get("delta")
            if not isinstance(delta, dict):
                continue
            _drop(delta, kept=("content", "reasoning_content") if "role" in delta else ())
            for call in objects(delta.get("tool_calls")):
                _drop(call)
                if isinstance(call.get("function"), dict):
                    _drop(call["function"])
        return (data,)


def _drop(found: Body, kept: tuple[str, ...] = ()) -> None:
    for name in [name for name, value in found.items() if value is None and name not in kept]:
        del found[name]


class FirstCall(Events):
    """The first call alone."""

    def __init__(self) -> None:
        self._cut: set[int] = set()  # choices whose second call was left out

    def event(self, data: Body) -> Iterable[Body]:
        """One chunk; none where nothing is left of it."""
        choices = objects(data.get("choices"))
        kept = [choice for choice in choices if self._keep(choice)]
        if choices and not kept:
            return ()
        if choices:
            data["choices"] = kept
        return (data,)

    def _keep(self, choice: Body) -> bool:
        index, delta = choice.get("index", 0), choice.get("delta") or {}
        calls = delta.get("tool_calls")
        if isinstance(calls, list):
            first = [call for call in calls if not call.get("index")]
            if len(first) < len(calls):
                self._cut.add(index)
            if first:
                delta["tool_calls"] = first
            else:
                del delta["tool_calls"]
        if choice.get("finish_reason") and index in self._cut:
            choice["finish_reason"] = "tool_calls"
        return bool(delta) or bool(choice.get("finish_reason"))
