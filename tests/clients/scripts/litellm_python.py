"""LiteLLM, the library: chats, tools, thoughts, the other two APIs."""

import json

import litellm
import shown
from shown import BASE, BOTH, KEY, ME, MODEL, PARIS, SAID, SUNNY, WEATHER, WHO, begins, case, same

# paste
from litellm import completion

answer = completion(
    model="hosted_vllm/" + MODEL,
    api_base=BASE + "/v1",
    api_key=KEY,
    messages=[{"role": "user", "content": "Who are you?"}],
)
print(answer.choices[0].message.content)
# end

ARGS = {"model": "hosted_vllm/" + MODEL, "api_base": BASE + "/v1", "api_key": KEY, "max_tokens": 400, "temperature": 0}
FUNCTION = {"name": "get_weather", "description": "Get the weather of a city.", "parameters": WEATHER}
TOOL = {"type": "function", "function": FUNCTION}


def user(text):
    return [{"role": "user", "content": text}]


def arguments(answer):
    return [json.loads(call.function.arguments) for call in answer.choices[0].message.tool_calls]


@case("completion, whole and streamed")
def _():
    whole = completion(**ARGS, messages=user(WHO))
    begins(whole.choices[0].message.content, ME)
    parts = list(completion(**ARGS, messages=user(WHO), stream=True, stream_options={"include_usage": True}))
    streamed = litellm.stream_chunk_builder(parts)
    same((streamed.choices[0].message.content, streamed.usage.completion_tokens),
         (whole.choices[0].message.content, whole.usage.completion_tokens))  # fmt: skip


@case("a tool is called and its result read; two calls in a stream")
def _():
    first = completion(**ARGS, messages=user(PARIS), tools=[TOOL])
    same(arguments(first), [{"city": "Paris"}])
    message = first.choices[0].message
    result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": SUNNY}
    last = completion(**ARGS, messages=[*user(PARIS), message, result], tools=[TOOL])
    begins(last.choices[0].message.content, SAID)
    parts = list(completion(**ARGS, messages=user(BOTH), tools=[TOOL], stream=True))
    same(arguments(litellm.stream_chunk_builder(parts)), [{"city": "Paris"}, {"city": "Tokyo"}])


@case("thoughts")
def _():
    message = completion(**ARGS, messages=user(WHO), reasoning_effort="high").choices[0].message
    assert message.reasoning_content
    begins(message.content, ME)


@case("a schema for the answer")
def _():
    schema = {"type": "object", "properties": {"kind": {"type": "boolean"}}, "required": ["kind"],
              "additionalProperties": False}  # fmt: skip
    form = {"type": "json_schema", "json_schema": {"name": "event", "strict": True, "schema": schema}}
    said = completion(**ARGS, messages=user(WHO), response_format=form).choices[0].message.content
    same(list(json.loads(said)), ["kind"])


@case("Anthropic's messages, by the route of that name")
async def _():
    got = await litellm.anthropic_messages(
        model="anthropic/" + MODEL, api_base=BASE, api_key=KEY, max_tokens=200, temperature=0, messages=user(WHO)
    )
    begins(got["content"][0]["text"], ME)


@case("responses, by the route of that name")
def _():
    got = litellm.responses(model="openai/" + MODEL, api_base=BASE + "/v1", api_key=KEY, input=WHO, temperature=0)
    begins(got.output[-1].content[0].text, ME)


@case("errors have their types")
def _():
    for wrong, kind in (({"model": "hosted_vllm/nosuch"}, litellm.NotFoundError),
                        ({"api_key": "wrong"}, litellm.AuthenticationError)):  # fmt: skip
        try:
            completion(**{**ARGS, **wrong}, messages=user(WHO), num_retries=0)
        except kind:
            continue
        raise AssertionError(f"no {kind.__name__}")


shown.run("litellm")
