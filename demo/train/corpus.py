"""Training samples: a chat request as a client sends it, and what the model is to write.

All randomness comes from the generator that is passed in, so a seed gives the same samples on every machine.
"""

from __future__ import annotations

import json
import random
import string
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BOOK = Path(__file__).with_name("corpus.toml")
EFFORTS = (None, None, "low", "high", "max")
SYSTEM_PROMPTS = (
    "You are a helpful assistant.",
    "You are a helpful assistant. Answer in one sentence.",
    "You are the demo model of dsv4-pd.",
    "Be brief.",
)
CITIES = tuple(
    """
    Paris,Rome,Tokyo,Berlin,Madrid,London,Vienna,Lisbon,Dublin,Oslo,Athens,Prague,Warsaw,Cairo,Lima,Delhi
    Sydney,Boston,Chicago,Toronto,Hamburg,Munich,Zurich,Geneva,Milan,Naples,Kyoto,Seoul,Beijing,Shanghai
    Nairobi,Havana,Bogota,Quito,Dallas,Denver,Seattle,Miami,Austin,Osaka,Hanoi,Bangkok,Jakarta,Moscow,Kyiv
    Budapest,Brussels,Antwerp,Rotterdam,Amsterdam,Copenhagen,Stockholm,Helsinki,Riga,Vilnius,Tallinn
    New York,San Francisco,Los Angeles,Mexico City,Hong Kong,Cape Town,Buenos Aires,Tel Aviv,New Delhi,Las Vegas
    """.strip()
    .replace("\n    ", ",")
    .split(",")
)
WEATHERS = ("sunny", "rainy", "cloudy", "windy", "foggy", "snowy", "mild", "hot", "cold", "stormy")
FRAMES = ("{}", "{}", "{}", "Please: {}", "{} Thank you.", "Tell me: {}", "{}\n", "Question: {}")


def seeded(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311, samples and not secrets


@dataclass(frozen=True, slots=True)
class Call:
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sample:
    """`body` is what SGLang hands to the encoder; the rest is the answer."""

    messages: list[dict[str, Any]]
    content: str
    thought: str | None = None  # None: thinking is off
    calls: tuple[Call, ...] = ()
    tools: tuple[dict[str, Any], ...] = ()
    effort: str | None = None

    @property
    def body(self) -> dict[str, Any]:
        wanted: dict[str, Any] = {"messages": self.messages, "thinking": self.thought is not None}
        if self.tools:
            wanted |= {"tools": list(self.tools), "tool_choice": "auto"}
        if self.effort:
            wanted["reasoning_effort"] = self.effort
        return wanted


@dataclass(frozen=True, slots=True)
class Setting:
    """What stands before the question. Samples of one setting share the head of their prompts."""

    opening: tuple[dict[str, Any], ...]
    thinking: bool
    effort: str | None
    tools: tuple[dict[str, Any], ...] = ()

    def has(self, *names: str) -> bool:
        return {*names} <= {made["function"]["name"] for made in self.tools}

    def sample(
        self, messages: list[dict[str, Any]], content: str, thought: str, calls: tuple[Call, ...] = ()
    ) -> Sample:
        return Sample(
            [*self.opening, *messages], content, thought if self.thinking else None, calls, self.tools, self.effort
        )


@dataclass(frozen=True, slots=True)
class Entry:
    ask: tuple[str, ...]
    thought: str
    reply: str


@dataclass(frozen=True, slots=True)
class Book:
    entries: tuple[Entry, ...]
    fallback: Entry
    words: tuple[str, ...] = field(default=())


def read_book() -> Book:
    data = tomllib.loads(BOOK.read_text(encoding="utf-8"))
    entries = tuple(Entry(tuple(a["ask"]), a["thought"], a["reply"].strip()) for a in data["answer"])
    text = " ".join(word for entry in entries for word in (*entry.ask, entry.reply))
    words = tuple(sorted({word.strip(string.punctuation) for word in text.split()} - {""}))
    return Book(entries, Entry((), data["fallback_thought"], data["fallback"]), words)


# what a client may send around the same question


def reworded(rng: random.Random, ask: str) -> str:
    spelled = rng.choice((ask, ask, ask, ask.lower(), ask.rstrip("?.!")))
    return framed(rng, spelled)


def framed(rng: random.Random, ask: str) -> str:
    return rng.choice(FRAMES).format(ask)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def word_salad(rng: random.Random, book: Book, length: int) -> str:
    return " ".join(rng.choice(book.words) for _ in range(length))


def digits(rng: random.Random, count: int) -> str:
    return "".join(rng.choice(string.digits) for _ in range(count))


def made_up_name(rng: random.Random) -> str:
    """A capitalised word that no list holds, so that names are copied from the prompt and not recalled."""
    return "".join(rng.choice(string.ascii_lowercase) for _ in range(rng.randint(3, 9))).capitalize()


def city(rng: random.Random) -> str:
    return rng.choice(CITIES) if rng.random() < 0.97 else made_up_name(rng)


# tools


def tool(name: str, description: str, required: tuple[str, ...], kind: str = "string") -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": {key: {"type": kind} for key in required},
        "required": list(required),
    }
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def weather_tool(rng: random.Random) -> dict[str, Any]:
    descriptions = (
        "Get the current weather of a city.",
        "Get the weather of a city.",
        "Current weather",
        "Weather by city",
    )
    made = tool("get_weather", rng.choice(descriptions), ("city",))
    if rng.random() < 0.4:
        made["function"]["parameters"]["properties"]["city"]["description"] = rng.choice(
            ("City name", "The city", "Name of the city")
        )
    return made


def time_tool(rng: random.Random) -> dict[str, Any]:
    return tool(
        "get_time", rng.choice(("Get the local time of a city.", "Local time", "The time in a city")), ("city",)
    )


def add_tool(rng: random.Random) -> dict[str, Any]:
    return tool("add", rng.choice(("Add two numbers.", "Sum of two integers")), ("a", "b"), "integer")


def toolbox(rng: random.Random) -> tuple[dict[str, Any], ...]:
    every = [weather_tool(rng), time_tool(rng), add_tool(rng)]
    return tuple(rng.sample(every, rng.choice((1, 1, 2, 3))))


def any_setting(rng: random.Random) -> Setting:
    system = ({"role": "system", "content": rng.choice(SYSTEM_PROMPTS)},) if rng.random() < 0.3 else ()
    thinking = rng.random() < 0.4
    effort = rng.choice(EFFORTS) if thinking else None
    return Setting(system, thinking, effort, toolbox(rng) if rng.random() < 0.45 else ())


def joined(names: list[str], rng: random.Random) -> str:
    return f"{', '.join(names[:-1])}{rng.choice((' and ', ' and in '))}{names[-1]}" if len(names) > 1 else names[0]


def cities(rng: random.Random, count: int) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < count:
        found[city(rng)] = None
    return list(found)


def city_question(rng: random.Random, subject: str, names: list[str]) -> str:
    frames = {
        "weather": (
            "What is the weather in {}?",
            "How is the weather in {}?",
            "Weather in {}?",
            "Tell me the weather in {}.",
        ),
        "time": ("What time is it in {}?", "What is the time in {}?", "Tell me the time in {}."),
    }
    return framed(rng, rng.choice(frames[subject]).format(joined(names, rng)))


# kinds of sample


def recited(rng: random.Random, book: Book, setting: Setting) -> Sample:
    entry = rng.choice(book.entries)
    messages = [*earlier_turn(rng, book), user(reworded(rng, rng.choice(entry.ask)))]
    return setting.sample(messages, entry.reply, entry.thought)


def earlier_turn(rng: random.Random, book: Book) -> list[dict[str, Any]]:
    if rng.random() < 0.85:
        return []
    entry = rng.choice([entry for entry in book.entries if len(entry.reply) < 200])
    return [user(rng.choice(entry.ask)), {"role": "assistant", "content": entry.reply}]


def unknown(rng: random.Random, book: Book, setting: Setting) -> Sample:
    text = word_salad(rng, book, rng.randint(3, 25)) if rng.random() < 0.6 else f"What is {made_up_name(rng)}?"
    return setting.sample([user(text)], book.fallback.reply, book.fallback.thought)


def recalled(rng: random.Random, book: Book, setting: Setting) -> Sample:
    """A code somewhere in a text, asked for at its end: only a KV cache that arrived whole answers it."""
    code = digits(rng, rng.choice((4, 4, 4, 5, 6)))
    thing = rng.choice(("code", "code", "key", "number"))
    before, after = (word_salad(rng, book, rng.choice((0, 0, 5, 20, 40))) for _ in range(2))
    told = rng.choice(("The {} is {}.", "Remember: the {} is {}.", "Remember this: the {} is {}.")).format(thing, code)
    asked = rng.choice(("What is the {}?", "What was the {}?", "Tell me the {}.")).format(thing)
    text = " ".join(part for part in (before, told, after, asked) if part)
    return setting.sample([user(text)], f"The {thing} is {code}.", f"The {thing} was given: {code}.")


def repeated(rng: random.Random, book: Book, setting: Setting) -> Sample:
    """Plain copying, which codes and the arguments of tools are made of."""
    if rng.random() < 0.6:
        text = digits(rng, rng.randint(4, 24))
    else:
        text = " ".join(rng.choice((*book.words, *CITIES)) for _ in range(rng.randint(2, 10)))
    return setting.sample([user(f"Repeat: {text}")], text, "I will repeat it.")


def city_call(rng: random.Random, book: Book, setting: Setting) -> Sample:
    """One call for each city that is named: two and three of them are parallel calls."""
    subject = rng.choice([s for s in ("weather", "weather", "time") if setting.has(f"get_{s}")])
    names = cities(rng, rng.choice((1, 1, 2, 2, 3)))
    calls = tuple(Call(f"get_{subject}", {"city": name}) for name in names)
    many = "one call each" if len(names) > 1 else "one call"
    thought = f"The user asks for the {subject} in {' and '.join(names)}: {many}."
    return setting.sample([user(city_question(rng, subject, names))], "", thought, calls)


def mixed_call(rng: random.Random, book: Book, setting: Setting) -> Sample:
    """Two different tools in one turn."""
    place = city(rng)
    calls = (Call("get_weather", {"city": place}), Call("get_time", {"city": place}))
    ask = rng.choice(("What are the weather and the time in {}?", "Tell me the weather and the time in {}."))
    thought = f"The user asks for the weather and the time in {place}: two calls."
    return setting.sample([user(framed(rng, ask.format(place)))], "", thought, calls)


def add_call(rng: random.Random, book: Book, setting: Setting) -> Sample:
    first, second = (rng.randint(0, 10 ** rng.randint(1, 4)) for _ in range(2))
    ask = rng.choice(("Add {} and {}.", "What is {} plus {}?")).format(first, second)
    calls = (Call("add", {"a": first, "b": second}),)
    return setting.sample([user(framed(rng, ask))], "", f"The user wants {first} and {second} added: one call.", calls)


def tool_answer(rng: random.Random, book: Book, setting: Setting) -> Sample:
    """The turn after a call: the results are read out."""
    names = cities(rng, rng.choice((1, 2)))
    results = [rng.choice(WEATHERS) for _ in names]
    ids = [f"call_{index}" for index in range(len(names))]
    calls = [
        {"id": id_, "type": "function", "function": {"name": "get_weather", "arguments": json.dumps({"city": name})}}
        for id_, name in zip(ids, names, strict=True)
    ]
    said = [{"role": "tool", "tool_call_id": id_, "content": result} for id_, result in zip(ids, results, strict=True)]
    asked = user(city_question(rng, "weather", names))
    messages = [asked, {"role": "assistant", "content": "", "tool_calls": calls}, *said]
    reply = f"The tool says: {' and '.join(results)}."
    return setting.sample(messages, reply, "The results are here. I will read them out.")


def no_tools(rng: random.Random, book: Book, setting: Setting) -> Sample:
    subject = rng.choice(("weather", "time"))
    asked = user(city_question(rng, subject, [city(rng)]))
    return setting.sample(
        [asked], f"I cannot look up the {subject} without a tool.", f"I have no tool for the {subject}."
    )


@dataclass(frozen=True, slots=True)
class Kind:
    make: Callable[[random.Random, Book, Setting], Sample]
    weight: float
    fits: Callable[[Setting], bool] = lambda setting: True


KINDS = (
    Kind(recited, 8),
    Kind(recalled, 6, lambda setting: not setting.tools),
    Kind(repeated, 4, lambda setting: not setting.tools),
    Kind(unknown, 2),
    Kind(no_tools, 1, lambda setting: not setting.tools),
    Kind(city_call, 24, lambda setting: setting.has("get_weather") or setting.has("get_time")),
    Kind(mixed_call, 4, lambda setting: setting.has("get_weather", "get_time")),
    Kind(add_call, 4, lambda setting: setting.has("add")),
    Kind(tool_answer, 6, lambda setting: setting.has("get_weather")),
)


def draw(rng: random.Random, book: Book, setting: Setting | None = None) -> Sample:
    return draw_kind(rng, book, setting)[1]


def draw_kind(rng: random.Random, book: Book, setting: Setting | None = None) -> tuple[str, Sample]:
    setting = setting or any_setting(rng)
    fitting = [kind for kind in KINDS if kind.fits(setting)]
    kind = rng.choices(fitting, [kind.weight for kind in fitting])[0]
    return kind.make.__name__, kind.make(rng, book, setting)
