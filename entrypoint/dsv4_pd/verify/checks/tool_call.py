"""One tool call: right name, arguments that are JSON, whole and streamed."""

from __future__ import annotations

from dsv4_pd.client.api import Reply
from dsv4_pd.verify import prompts
from dsv4_pd.verify.base import Result, Subject, failed, passed
from dsv4_pd.verify.compare import both, difference

NEXT = "the engine's --tool-call-parser must be deepseekv4 on both roles: see dsv4-pd plan"
MARKUP = ("DSML", "tool_calls>", "tool▁calls")


def check(subject: Subject) -> Result:
    """The weather in one city."""
    ask = "What is the weather in Paris?"
    whole, streamed, trouble = both(subject.api, ask, tools=[prompts.WEATHER_TOOL], max_tokens=256)
    if trouble:
        return trouble
    for how, reply in (("whole", whole), ("streamed", streamed)):
        if fault := fault_in(reply, ["Paris"]):
            return failed(f"{how} answer: {fault}", NEXT, content=reply.content)
    if found := difference(whole, streamed):
        return failed(
            f"streamed and whole answer differ: {found}", "report it: the streaming parser loses or adds text"
        )
    return passed(f"get_weather(Paris), whole and in {streamed.chunks} chunks, the same")


def fault_in(reply: Reply, cities: list[str]) -> str | None:
    """What is wrong with the calls, or None."""
    if any(mark in reply.content for mark in MARKUP):
        return f"call markup left in the text: {reply.content[:80]!r}"
    asked = []
    for call in reply.calls:
        arguments = call.parsed()
        if call.name != "get_weather" or not isinstance(arguments, dict):
            return f"an invalid call: {call.name} {call.arguments[:80]!r}"
        asked.append(str(arguments.get("city")))
    if [name.split(",")[0].strip() for name in asked] != cities:
        return f"asked for {asked or 'nothing'}, expected calls for {cities}; text {reply.content[:80]!r}"
    if reply.finish_reason != "tool_calls":
        return f"finish_reason {reply.finish_reason!r}, expected 'tool_calls'"
    return None
