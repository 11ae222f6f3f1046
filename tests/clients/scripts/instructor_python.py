"""instructor: classes out of answers."""

from collections.abc import Iterable

import shown
from shown import BASE, BOTH, KEY, MODEL, PARIS, WHO, case, same

# paste
import instructor
from openai import OpenAI
from pydantic import BaseModel

api = OpenAI(base_url=BASE + "/v1", api_key=KEY)
client = instructor.from_openai(api, mode=instructor.Mode.JSON_SCHEMA)


class Answer(BaseModel):
    yes: bool


asked = {"model": MODEL, "messages": [{"role": "user", "content": "Is Paris the capital of France?"}]}
print(client.chat.completions.create(**asked, response_model=Answer, max_tokens=200))
# end


class Weather(BaseModel):
    """Get the weather of a city."""

    city: str


def ask(mode, text, kind, act="create"):
    one = instructor.from_openai(OpenAI(base_url=BASE + "/v1", api_key=KEY), mode=mode)
    options = {"temperature": 0, "max_tokens": 200, "max_retries": 0}
    return getattr(one.chat.completions, act)(
        model=MODEL, messages=[{"role": "user", "content": text}], response_model=kind, **options
    )


@case("a class by a schema")
def _():
    assert isinstance(ask(instructor.Mode.JSON_SCHEMA, WHO, Answer), Answer)


@case("a class by a tool, with what the question says")
def _():
    same(ask(instructor.Mode.TOOLS, PARIS, Weather).city, "Paris")


@case("a class by a strict tool")
def _():
    same(ask(instructor.Mode.TOOLS_STRICT, PARIS, Weather).city, "Paris")


@case("several classes by parallel tools")
def _():
    same([one.city for one in ask(instructor.Mode.PARALLEL_TOOLS, BOTH, Iterable[Weather])], ["Paris", "Tokyo"])


@case("a class in parts, streamed")
def _():
    parts = list(ask(instructor.Mode.JSON_SCHEMA, WHO, Answer, act="create_partial"))
    assert isinstance(parts[-1].yes, bool), parts


shown.run("instructor")
