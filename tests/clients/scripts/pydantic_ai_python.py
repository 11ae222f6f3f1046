"""pydantic-ai: agents, tools, structured output."""

import shown
from pydantic import BaseModel
from pydantic_ai import NativeOutput
from shown import BASE, BOTH, KEY, ME, MODEL, PARIS, SAID, SUNNY, WHO, begins, case, same

# paste
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=BASE + "/v1", api_key=KEY))
print(Agent(model).run_sync("Who are you?").output)
# end

SURE = {"temperature": 0, "max_tokens": 400}
called = []


class Event(BaseModel):
    kind: bool


def agent(*tools, **options):
    called.clear()
    return Agent(model, model_settings=SURE, tools=tools, **options)


def get_weather(city: str) -> str:
    """Get the weather of a city."""
    called.append(city)
    return SUNNY


def get_time(city: str = "here", options: dict[str, str] | None = None) -> str:
    """Get the local time of a city."""
    return "noon"


@case("a run, whole and streamed, with usage")
async def _():
    whole = await agent().run(WHO)
    begins(whole.output, ME)
    async with agent().run_stream(WHO) as result:
        same("".join([part async for part in result.stream_text(delta=True)]), whole.output)


@case("thoughts")
async def _():
    result = await Agent(model, model_settings={**SURE, "openai_reasoning_effort": "high"}).run(WHO)
    same([part.part_kind for part in result.all_messages()[-1].parts], ["thinking", "text"])


@case("a tool is called and its result read, streamed too")
async def _():
    begins((await agent(get_weather).run(PARIS)).output, SAID)
    same(called, ["Paris"])
    async with agent(get_weather).run_stream(PARIS) as result:
        begins(await result.get_output(), SAID)
    same(called, ["Paris"])


@case("two calls at once")
async def _():
    await agent(get_weather).run(BOTH)
    same(sorted(called), ["Paris", "Tokyo"])


@case("a tool whose schema is strict beside one whose schema can't be")
async def _():
    await agent(get_weather, get_time).run(PARIS)
    same(called, ["Paris"])


@case("structured output by a tool")
async def _():
    assert isinstance((await agent(output_type=Event, retries=3).run(WHO)).output, Event)


@case("structured output by a schema")
async def _():
    assert isinstance((await agent(output_type=NativeOutput(Event)).run(WHO)).output, Event)


@case("structured output by a schema, beside a tool that stays callable")
async def _():
    result = await agent(get_weather, output_type=NativeOutput(Event), retries=3).run(PARIS)
    assert called and isinstance(result.output, Event), (called, result.output)


shown.run("pydantic-ai-slim")
