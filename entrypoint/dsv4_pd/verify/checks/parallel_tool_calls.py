"""Two tool calls in one answer, whole and streamed."""

from __future__ import annotations

from dsv4_pd.verify import prompts
from dsv4_pd.verify.base import Result, Subject, failed, passed
from dsv4_pd.verify.checks.tool_call import NEXT, fault_in
from dsv4_pd.verify.compare import both, difference


def check(subject: Subject) -> Result:
    """The weather in two cities."""
    ask = "What is the weather in Paris and Rome?"
    whole, streamed, trouble = both(subject.api, ask, tools=[prompts.WEATHER_TOOL], max_tokens=512)
    if trouble:
        return trouble
    for how, reply in (("whole", whole), ("streamed", streamed)):
        if fault := fault_in(reply, ["Paris", "Rome"]):
            return failed(f"{how} answer: {fault}", NEXT, content=reply.content)
    if found := difference(whole, streamed):
        return failed(
            f"streamed and whole answer differ: {found}", "report it: the streaming parser loses or adds text"
        )
    return passed(f"get_weather(Paris) and get_weather(Rome) in one answer, whole and in {streamed.chunks} chunks")
