"""OpenAI, Python: every call of it that is served."""

import json

import openai
import shown
from openai import AsyncOpenAI, pydantic_function_tool
from pydantic import BaseModel
from shown import BASE, BOTH, KEY, ME, MODEL, PARIS, SAID, SUNNY, TOO_LONG, WEATHER, WHO, begins, case, same

# paste
from openai import OpenAI

client = OpenAI(base_url=BASE + "/v1", api_key=KEY)
answer = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Who are you?"}])
print(answer.choices[0].message.content)
# end

FUNCTION = {"name": "get_weather", "description": "Get the weather of a city.", "parameters": WEATHER}
TOOL = {"type": "function", "function": FUNCTION}
CLOCK = {"name": "get_time", "description": "Get the local time of a city.", "parameters": WEATHER}
TIME = {"type": "function", "function": CLOCK}
STRICT = {
    "type": "function",
    "function": {**FUNCTION, "strict": True, "parameters": {**WEATHER, "additionalProperties": False}},
}
FLAT = {"type": "function", "strict": False, **FUNCTION}  # of responses


class Event(BaseModel):
    kind: bool


class GetWeather(BaseModel):
    city: str


def ask(text, **options):
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], "temperature": 0, **options}


def message(text, **options):
    return client.chat.completions.create(**ask(text, **options)).choices[0].message


@case("the list of models, and one of them")
def _():
    same([model.id for model in client.models.list()], [MODEL])
    assert client.models.retrieve(MODEL).created > 0


@case("chat, whole and streamed, with usage")
def _():
    whole = client.chat.completions.create(**ask(WHO))
    begins(whole.choices[0].message.content, ME)
    same(whole.choices[0].finish_reason, "stop")
    chunks = list(client.chat.completions.create(**ask(WHO), stream=True, stream_options={"include_usage": True}))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    same((text, chunks[-1].usage.completion_tokens), (whole.choices[0].message.content, whole.usage.completion_tokens))


@case("an answer that is cut says so")
def _():
    same(client.chat.completions.create(**ask(WHO, max_tokens=3)).choices[0].finish_reason, "length")


@case("thoughts: none unless asked for, then apart from the answer, streamed too")
def _():
    assert not getattr(message(WHO), "reasoning_content", None)
    whole = message(WHO, reasoning_effort="high")
    assert whole.reasoning_content
    begins(whole.content, ME)
    chunks = client.chat.completions.create(**ask(WHO, reasoning_effort="high"), stream=True)
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    same("".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas), whole.reasoning_content)
    same("".join(delta.content or "" for delta in deltas), whole.content)


@case("a tool is called, and its result read")
def _():
    first = client.chat.completions.create(**ask(PARIS, tools=[TOOL])).choices[0]
    same(first.finish_reason, "tool_calls")
    (call,) = first.message.tool_calls
    same((call.function.name, json.loads(call.function.arguments)), ("get_weather", {"city": "Paris"}))
    said = [*ask(PARIS)["messages"], first.message, {"role": "tool", "tool_call_id": call.id, "content": SUNNY}]
    begins(message(PARIS, messages=said, tools=[TOOL]).content, SAID)


@case("two calls in a stream; one where parallel_tool_calls is false")
def _():
    with client.chat.completions.stream(**ask(BOTH, tools=[TOOL])) as stream:
        calls = stream.get_final_completion().choices[0].message.tool_calls
    same([json.loads(call.function.arguments) for call in calls], [{"city": "Paris"}, {"city": "Tokyo"}])
    same(len(message(BOTH, tools=[TOOL], parallel_tool_calls=False).tool_calls), 1)


@case("a strict tool beside one that is not; a tool that must be called; one by its name")
def _():
    same(json.loads(message(PARIS, tools=[STRICT, TIME]).tool_calls[0].function.arguments), {"city": "Paris"})
    assert message(WHO, tools=[STRICT, TIME], tool_choice="required", max_tokens=200).tool_calls
    named = {"type": "function", "function": {"name": "get_time"}}
    same(message(PARIS, tools=[TOOL, TIME], tool_choice=named, max_tokens=200).tool_calls[0].function.name, "get_time")


@case("functions, as they were before tools")
def _():
    called = message(PARIS, functions=[FUNCTION]).function_call
    same((called.name, json.loads(called.arguments)), ("get_weather", {"city": "Paris"}))


@case("parse() into a class, alone and beside a tool, which stays callable")
def _():
    found = client.chat.completions.parse(**ask(WHO, max_tokens=200), response_format=Event)
    assert isinstance(found.choices[0].message.parsed, Event)
    tool = pydantic_function_tool(GetWeather, name="get_weather", description="Get the weather of a city.")
    found = client.chat.completions.parse(**ask(PARIS, max_tokens=200), response_format=Event, tools=[tool])
    same(found.choices[0].message.tool_calls[0].function.parsed_arguments, GetWeather(city="Paris"))


@case("log probabilities, and several answers")
def _():
    found = client.chat.completions.create(**ask(WHO, max_tokens=4, logprobs=True, top_logprobs=2, n=2))
    same([len(choice.logprobs.content[0].top_logprobs) for choice in found.choices], [2, 2])


@case("responses: whole, streamed, thoughts")
def _():
    whole = client.responses.create(model=MODEL, input=WHO, temperature=0)
    begins(whole.output_text, ME)
    events = list(client.responses.create(model=MODEL, input=WHO, temperature=0, stream=True))
    same("".join(event.delta for event in events if event.type == "response.output_text.delta"), whole.output_text)
    same(events[-1].type, "response.completed")
    thought = client.responses.create(model=MODEL, input=WHO, temperature=0, reasoning={"effort": "high"})
    same([item.type for item in thought.output], ["reasoning", "message"])


@case("responses: a tool is called, and its result read")
def _():
    first = client.responses.create(model=MODEL, input=PARIS, temperature=0, tools=[FLAT])
    (call,) = [item for item in first.output if item.type == "function_call"]
    same((call.name, json.loads(call.arguments)), ("get_weather", {"city": "Paris"}))
    result = {"type": "function_call_output", "call_id": call.call_id, "output": SUNNY}
    said = [{"role": "user", "content": PARIS}, *first.output, result]
    begins(client.responses.create(model=MODEL, input=said, temperature=0, tools=[FLAT]).output_text, SAID)


@case("completions")
def _():
    found = client.completions.create(model=MODEL, prompt=["one, two", "two, three"], max_tokens=4)
    same([choice.index for choice in found.choices], [0, 1])


@case("errors have their types, streamed or not: unknown model, too long, wrong key")
def _():
    once = client.with_options(max_retries=0)
    for stream in (False, True):
        for kind, asker, asked in (
            (openai.NotFoundError, once, ask(WHO, model="nosuch")),
            (openai.BadRequestError, once, ask(TOO_LONG)),
            (openai.AuthenticationError, once.with_options(api_key="wrong"), ask(WHO)),
        ):
            try:
                asker.chat.completions.create(**asked, stream=stream)
            except kind as error:
                assert error.body["message"], error.body
                assert error.request_id, error.response.headers
            else:
                raise AssertionError(f"no {kind.__name__}")


@case("a stream that is left leaves the next one its place; 64 requests at once")
async def _():
    import asyncio

    many = AsyncOpenAI(base_url=BASE + "/v1", api_key=KEY, max_retries=0)
    async with await many.chat.completions.create(**ask("Tell me a story."), stream=True) as stream:
        async for _chunk in stream:
            break
    found = await asyncio.gather(*(many.chat.completions.create(**ask("Hi", max_tokens=4)) for _ in range(64)))
    same(len({one.choices[0].message.content for one in found}), 1)
    await many.close()


shown.run("openai")
