"""Claude Code: what it sends at each turn, sent by Anthropic's library; the program itself was not run."""

import os

import shown
from shown import BASE, KEY, MODEL, PARIS, SAID, SUNNY, WEATHER, begins, case, same

# paste sh
SETUP = f"""
export ANTHROPIC_BASE_URL={BASE}
export ANTHROPIC_AUTH_TOKEN="{KEY}"
export ANTHROPIC_MODEL={MODEL} ANTHROPIC_SMALL_FAST_MODEL={MODEL}
"""
# end

for line in SETUP.split("\n"):
    for word in line.removeprefix("export ").split():
        name, value = word.split("=")
        os.environ[name] = value.strip('"')

from anthropic import Anthropic

client = Anthropic()  # by the environment alone
CACHED = {"cache_control": {"type": "ephemeral"}}
SYSTEM = [{"type": "text", "text": "You are a helpful assistant.", **CACHED}]
TOOLS = [
    {"name": "get_weather", "description": "Get the weather of a city.", "input_schema": WEATHER,
     "eager_input_streaming": True, **CACHED},
]  # fmt: skip
BETAS = ["claude-code-20250219", "interleaved-thinking-2025-05-14", "fine-grained-tool-streaming-2025-05-14",
         "context-management-2025-06-27"]  # fmt: skip
EDITS = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}


def turn(said, **options):
    """One turn, streamed. top_k makes the demo's model sure at the temperature that thinking asks for."""
    asked = {
        "model": os.environ["ANTHROPIC_MODEL"], "max_tokens": 2000, "system": SYSTEM, "tools": TOOLS, "betas": BETAS,
        "metadata": {"user_id": "user_1_account__session_2"}, "messages": said,
        "context_management": EDITS, "extra_body": {"temperature": 1, "top_k": 1}, **options,
    }  # fmt: skip
    with client.beta.messages.stream(**asked) as stream:
        kinds = {event.type for event in stream}
        assert {"message_start", "content_block_stop", "message_delta", "message_stop"} <= kinds, kinds
        return stream.get_final_message()


def loop(**options):
    """Until the model calls no tool any more: the turns, as blocks."""
    said, turns = [{"role": "user", "content": [{"type": "text", "text": PARIS, **CACHED}]}], []
    for _ in range(4):
        got = turn(said, **options)
        turns.append(got)
        said.append({"role": "assistant", "content": got.content})
        calls = [block for block in got.content if block.type == "tool_use"]
        if not calls:
            return turns
        results = [{"type": "tool_result", "tool_use_id": call.id, "content": SUNNY} for call in calls]
        said.append({"role": "user", "content": results})
    raise AssertionError(f"no end after {[[block.type for block in one.content] for one in turns]}")


def check(turns, *before):
    first, last = turns
    same([block.type for block in first.content], [*before, "tool_use"])
    same((first.stop_reason, first.content[-1].input), ("tool_use", {"city": "Paris"}))
    same([block.type for block in last.content], [*before, "text"])
    same(last.stop_reason, "end_turn")
    begins(last.content[-1].text, SAID)


@case("thinking, a tool, its result with the thoughts sent back, an answer")
def _():
    turns = loop(thinking={"type": "enabled", "budget_tokens": 1024})
    check(turns, "thinking")
    assert all(one.content[0].signature for one in turns), turns


@case("the same with thinking left to the model, and an effort")
def _():
    check(loop(thinking={"type": "adaptive"}, output_config={"effort": "high"}), "thinking")


@case("the same without thinking")
def _():
    check(loop(thinking={"type": "disabled"}))


@case("count_tokens of such a turn")
def _():
    asked = {"model": MODEL, "system": SYSTEM, "tools": TOOLS, "betas": BETAS}
    counted = client.beta.messages.count_tokens(**asked, messages=[{"role": "user", "content": PARIS}]).input_tokens
    used = turn([{"role": "user", "content": PARIS}], thinking={"type": "disabled"}).usage
    same(counted, used.input_tokens + (used.cache_read_input_tokens or 0))


shown.run("anthropic")
