"""OpenAI Agents SDK: on responses, its default, and on chat completions."""

import shown
from pydantic import BaseModel
from shown import BASE, KEY, ME, MODEL, PARIS, SAID, SUNNY, WHO, begins, case, same

# paste
from agents import Agent, OpenAIResponsesModel, Runner, set_tracing_disabled
from openai import AsyncOpenAI

set_tracing_disabled(True)  # its traces go to OpenAI
model = OpenAIResponsesModel(MODEL, AsyncOpenAI(base_url=BASE + "/v1", api_key=KEY))
print(Runner.run_sync(Agent(name="me", model=model), "Who are you?").final_output)
# end

from agents import ModelSettings, OpenAIChatCompletionsModel, function_tool, handoff

SURE = ModelSettings(temperature=0, max_tokens=400)
called = []


class Event(BaseModel):
    kind: bool


def get_weather(city: str) -> str:
    """Get the weather of a city."""
    called.append(city)
    return SUNNY


def get_time(city: str = "here") -> str:
    """Get the local time of a city."""
    return "noon"


STRICT, LOOSE = function_tool(get_weather), function_tool(get_time, strict_mode=False)


def models():
    """New ones for each case: each has an event loop of its own."""
    for kind in (OpenAIResponsesModel, OpenAIChatCompletionsModel):
        called.clear()
        yield kind(MODEL, AsyncOpenAI(base_url=BASE + "/v1", api_key=KEY, max_retries=0))


@case("a run, whole and streamed")
async def _():
    for one in models():
        whole = await Runner.run(Agent(name="me", model=one, model_settings=SURE), WHO)
        begins(whole.final_output, ME)
        result = Runner.run_streamed(Agent(name="me", model=one, model_settings=SURE), WHO)
        events = [event async for event in result.stream_events() if event.type == "raw_response_event"]
        deltas = [event.data.delta for event in events if event.data.type == "response.output_text.delta"]
        same(("".join(deltas), result.final_output), (whole.final_output, whole.final_output))


@case("a tool is called and its result read, streamed too")
async def _():
    for one in models():
        agent = Agent(name="me", model=one, model_settings=SURE, tools=[STRICT])
        begins((await Runner.run(agent, PARIS, max_turns=4)).final_output, SAID)
        result = Runner.run_streamed(agent, PARIS, max_turns=4)
        async for _event in result.stream_events():
            pass
        begins(result.final_output, SAID)
        same(called, ["Paris", "Paris"])


@case("a strict tool beside one that is not, as those of MCP servers are")
async def _():
    for one in models():
        agent = Agent(name="me", model=one, model_settings=SURE, tools=[STRICT, LOOSE])
        await Runner.run(agent, PARIS, max_turns=6)
        assert called and set(called) == {"Paris"}, called


@case("a handoff, beside a tool that is not strict")
async def _():
    for one in models():
        other = Agent(name="other", model=one, model_settings=SURE)
        given = ModelSettings(temperature=0, max_tokens=400, tool_choice="transfer_to_other")
        agent = Agent(name="me", model=one, model_settings=given, tools=[LOOSE], handoffs=[handoff(other)])
        result = await Runner.run(agent, WHO, max_turns=4)
        same(result.last_agent.name, "other")
        assert result.final_output


@case("an output type")
async def _():
    for one in models():
        result = await Runner.run(Agent(name="me", model=one, model_settings=SURE, output_type=Event), WHO)
        assert isinstance(result.final_output, Event), result.final_output


async def typed_with_a_tool(one):
    agent = Agent(name="me", model=one, model_settings=SURE, tools=[STRICT], output_type=Event)
    result = await Runner.run(agent, PARIS, max_turns=6)
    assert called and isinstance(result.final_output, Event), (called, result.final_output)


@case("an output type beside a tool, on chat completions")
async def _():
    await typed_with_a_tool(list(models())[1])


@case("an output type beside a tool, on responses")
async def _():
    await typed_with_a_tool(next(models()))


shown.run("openai-agents")
