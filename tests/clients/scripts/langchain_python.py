"""LangChain: models, tools, structured answers, an agent."""

import shown
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from pydantic import BaseModel
from shown import BASE, BOTH, KEY, ME, MODEL, PARIS, SAID, SUNNY, WHO, begins, case, same

# paste
from langchain_openai import ChatOpenAI

llm = ChatOpenAI(base_url=BASE + "/v1", api_key=KEY, model=MODEL)
print(llm.invoke("Who are you?").content)
# end

sure = ChatOpenAI(base_url=BASE + "/v1", api_key=KEY, model=MODEL, temperature=0, stream_usage=True)


class Event(BaseModel):
    """An event."""

    kind: bool


class GetWeather(BaseModel):
    """Get the weather of a city."""

    city: str


@tool
def get_weather(city: str) -> str:
    """Get the weather of a city."""
    return SUNNY


def gathered(parts):
    whole = None
    for part in parts:
        whole = part if whole is None else whole + part
    return whole


@case("invoke and stream, with usage")
def _():
    whole = sure.invoke(WHO)
    begins(whole.content, ME)
    streamed = gathered(sure.stream(WHO))
    same((streamed.content, streamed.usage_metadata["output_tokens"]),
         (whole.content, whole.usage_metadata["output_tokens"]))  # fmt: skip


@case("bind_tools: calls, whole and streamed, and their results")
def _():
    bound = sure.bind_tools([get_weather])
    said = [HumanMessage(BOTH)]
    first = bound.invoke(said)
    same([call["args"] for call in first.tool_calls], [{"city": "Paris"}, {"city": "Tokyo"}])
    said += [first, *(ToolMessage(SUNNY, tool_call_id=call["id"]) for call in first.tool_calls)]
    begins(bound.invoke(said).content, "The tool says: ")
    same([call["args"] for call in gathered(bound.stream(PARIS)).tool_calls], [{"city": "Paris"}])


@case("structured answers: by a schema, by a tool, by a strict tool")
def _():
    assert isinstance(sure.with_structured_output(Event, method="json_schema").invoke(WHO), Event)
    for strict in (None, True):
        by_tool = sure.with_structured_output(GetWeather, method="function_calling", strict=strict)
        same(by_tool.invoke(PARIS), GetWeather(city="Paris"))


@case("a strict tool beside a schema for the answer: still called")
def _():
    bound = sure.bind_tools([get_weather], response_format=Event, strict=True)
    same([call["args"] for call in bound.invoke(PARIS).tool_calls], [{"city": "Paris"}])


@case("create_agent calls its tool and reads the result")
def _():
    agent = create_agent(sure, tools=[get_weather])
    said = agent.invoke({"messages": [{"role": "user", "content": PARIS}]}, {"recursion_limit": 12})["messages"]
    same([one.type for one in said], ["human", "ai", "tool", "ai"])
    begins(said[-1].content, SAID)


@case("the responses API, with a tool")
def _():
    responses = ChatOpenAI(base_url=BASE + "/v1", api_key=KEY, model=MODEL, temperature=0, use_responses_api=True)
    begins(responses.invoke(WHO).text, ME)
    same([call["args"] for call in responses.bind_tools([get_weather]).invoke(PARIS).tool_calls], [{"city": "Paris"}])


shown.run("langchain-openai")
