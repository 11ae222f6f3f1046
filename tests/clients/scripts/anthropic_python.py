"""Anthropic, Python: messages, tools, thoughts."""

import anthropic
import shown
from shown import BASE, BOTH, KEY, ME, MODEL, PARIS, SAID, SUNNY, TOO_LONG, WEATHER, WHO, begins, case, same

# paste
from anthropic import Anthropic

client = Anthropic(base_url=BASE, api_key=KEY)
answer = client.messages.create(
    model=MODEL,
    max_tokens=200,
    messages=[{"role": "user", "content": "Who are you?"}],
)
print(answer.content[0].text)
# end

TOOL = {"name": "get_weather", "description": "Get the weather of a city.", "input_schema": WEATHER}


def ask(text, **options):
    messages = [{"role": "user", "content": text}]
    sure = {"temperature": 0}  # which the library has no argument for any more
    return {"model": MODEL, "max_tokens": 400, "messages": messages, "extra_body": sure, **options}


def calls(message):
    return [block for block in message.content if block.type == "tool_use"]


@case("messages, with api_key= and with auth_token=")
def _():
    for one in (client, Anthropic(base_url=BASE, auth_token=KEY)):
        got = one.messages.create(**ask(WHO))
        begins(got.content[0].text, ME)
        same(got.stop_reason, "end_turn")


@case("a stream, and its final message")
def _():
    whole = client.messages.create(**ask(WHO))
    with client.messages.stream(**ask(WHO)) as stream:
        same("".join(stream.text_stream), whole.content[0].text)
        got = stream.get_final_message()
    same((got.stop_reason, got.usage.output_tokens), ("end_turn", whole.usage.output_tokens))


@case("system blocks with cache_control")
def _():
    system = [{"type": "text", "text": "You are a helpful assistant.", "cache_control": {"type": "ephemeral"}}]
    begins(client.messages.create(**ask(WHO, system=system)).content[0].text, ME)


@case("a tool is called, and its result read")
def _():
    first = client.messages.create(**ask(PARIS, tools=[TOOL]))
    (call,) = calls(first)
    same((first.stop_reason, call.name, call.input), ("tool_use", "get_weather", {"city": "Paris"}))
    result = {"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": SUNNY}]}
    said = [*ask(PARIS)["messages"], {"role": "assistant", "content": first.content},
            {"role": "user", "content": [result]}]  # fmt: skip
    begins(client.messages.create(**ask(PARIS, messages=said, tools=[TOOL])).content[0].text, SAID)


@case("two calls in a stream; one where disable_parallel_tool_use is set, streamed too")
def _():
    one = {"type": "auto", "disable_parallel_tool_use": True}
    for choice, cities in (({"type": "auto"}, ["Paris", "Tokyo"]), (one, ["Paris"])):
        with client.messages.stream(**ask(BOTH, tools=[TOOL], tool_choice=choice)) as stream:
            got = stream.get_final_message()
        same([call.input for call in calls(got)], [{"city": city} for city in cities])
        same(got.stop_reason, "tool_use")


@case("a tool that must be called; one by its name")
def _():
    for choice in ({"type": "any"}, {"type": "tool", "name": "get_weather"}):
        same(client.messages.create(**ask(PARIS, tools=[TOOL], tool_choice=choice)).stop_reason, "tool_use")


@case("thoughts, and thoughts that come back in the next turn")
def _():
    thinking = {"type": "enabled", "budget_tokens": 1024}
    first = client.messages.create(**ask(WHO, max_tokens=2000, thinking=thinking))
    same([block.type for block in first.content], ["thinking", "text"])
    assert first.content[0].thinking
    begins(first.content[1].text, ME)
    said = [*ask(WHO)["messages"], {"role": "assistant", "content": first.content},
            {"role": "user", "content": "What can you do?"}]  # fmt: skip
    again = client.messages.create(**ask(WHO, max_tokens=2000, thinking=thinking, messages=said))
    same([block.type for block in again.content], ["thinking", "text"])


@case("count_tokens says what a message costs")
def _():
    asked = {"model": MODEL, "messages": ask(WHO)["messages"]}
    same(client.messages.count_tokens(**asked).input_tokens, client.messages.create(**ask(WHO)).usage.input_tokens)


@case("stop_sequences give the reason, streamed too")
def _():
    got = client.messages.create(**ask(WHO, stop_sequences=["demo"]))
    same((got.stop_reason, got.stop_sequence, got.content[0].text), ("stop_sequence", "demo", "I am the "))
    with client.messages.stream(**ask(WHO, stop_sequences=["demo"])) as stream:
        got = stream.get_final_message()
    same((got.stop_reason, got.stop_sequence), ("stop_sequence", "demo"))


@case("an answer that is cut says so")
def _():
    same(client.messages.create(**ask(WHO, max_tokens=3)).stop_reason, "max_tokens")


@case("the list of models")
def _():
    same([model.id for model in client.models.list()], [MODEL])


@case("errors have their types, streamed or not: unknown model, too long, wrong key")
def _():
    once = client.with_options(max_retries=0)
    for stream in (False, True):
        for kind, name, asker, asked in (
            (anthropic.NotFoundError, "not_found_error", once, ask(WHO, model="nosuch")),
            (anthropic.BadRequestError, "invalid_request_error", once, ask(TOO_LONG)),
            (anthropic.AuthenticationError, "authentication_error", Anthropic(base_url=BASE, api_key="no"), ask(WHO)),
        ):
            try:
                asker.messages.create(**asked, stream=stream)
            except kind as error:
                same(error.body["error"]["type"], name)
            else:
                raise AssertionError(f"no {kind.__name__}")


shown.run("anthropic")
