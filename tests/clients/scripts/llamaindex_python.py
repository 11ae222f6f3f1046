"""LlamaIndex: chats, tools, classes, an agent."""

import shown
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.tools import FunctionTool
from pydantic import BaseModel
from shown import BASE, CONTEXT, KEY, ME, MODEL, PARIS, SAID, SUNNY, WHO, begins, case, same

# paste
from llama_index.core.llms import ChatMessage
from llama_index.llms.openai_like import OpenAILike

llm = OpenAILike(
    model=MODEL,
    api_base=BASE + "/v1",
    api_key=KEY,
    is_chat_model=True,
    is_function_calling_model=True,
    context_window=CONTEXT,
    temperature=0,
)
print(llm.chat([ChatMessage(role="user", content="Who are you?")]).message.content)
# end

called = []


class Event(BaseModel):
    """An event."""

    kind: bool


def get_weather(city: str) -> str:
    """Get the weather of a city."""
    called.append(city)
    return SUNNY


TOOL = FunctionTool.from_defaults(get_weather, description="Get the weather of a city.")


@case("chat, whole and streamed")
def _():
    said = [ChatMessage(role="user", content=WHO)]
    whole = llm.chat(said).message.content
    begins(whole, ME)
    same("".join(part.delta or "" for part in llm.stream_chat(said)), whole)


@case("complete")
def _():
    begins(llm.complete(WHO).text, ME)


@case("a tool is called")
def _():
    (call,) = llm.get_tool_calls_from_response(llm.chat_with_tools([TOOL], user_msg=PARIS))
    same((call.tool_name, call.tool_kwargs), ("get_weather", {"city": "Paris"}))


@case("an agent calls its tool and reads the result")
async def _():
    called.clear()
    answer = await FunctionAgent(tools=[TOOL], llm=llm).run(PARIS)
    same(called, ["Paris"])
    begins(str(answer), SAID)


@case("a class")
def _():
    assert isinstance(llm.as_structured_llm(Event).complete(WHO).raw, Event)


shown.run("llama-index-llms-openai-like")
