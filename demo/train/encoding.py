"""Samples to token ids, by the very encoder that SGLang serves with."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import deepseek_recipe as recipe
from sglang.srt.parser.deepseek_recipe_renderer import DeepSeekRecipe, pre_normalize
from tokenizers import Tokenizer

from demo.train.corpus import Call, Sample
from demo.train.tokens import END, THINK_END

DSML = "｜DSML｜"
SPEC = "dsv4"


@dataclass(frozen=True, slots=True)
class Example:
    prompt: list[int]
    answer: list[int]


class Encoder:
    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._recipe: Any = DeepSeekRecipe(SPEC, tokenizer)

    def encode(self, sample: Sample) -> Example:
        answer = self.tokenizer.encode(answer_text(sample), add_special_tokens=False).ids
        return Example(self._recipe.encode(sample.body), answer)


def answer_text(sample: Sample) -> str:
    """What follows the generation header, which opens the thinking block or closes it already."""
    thought = "" if sample.thought is None else f"{sample.thought}{THINK_END}"
    return f"{thought}{sample.content}{calls_text(sample.calls)}{END}"


def calls_text(calls: tuple[Call, ...]) -> str:
    if not calls:
        return ""
    return f"\n\n<{DSML}tool_calls>\n" + "".join(map(call_text, calls)) + f"</{DSML}tool_calls>"


def call_text(call: Call) -> str:
    parameters = "".join(parameter_text(name, value) for name, value in call.arguments.items())
    return f'<{DSML}invoke name="{call.name}">\n{parameters}</{DSML}invoke>\n'


def parameter_text(name: str, value: object) -> str:
    is_string = isinstance(value, str)
    text = value if is_string else json.dumps(value)
    return f'<{DSML}parameter name="{name}" string="{str(is_string).lower()}">{text}</{DSML}parameter>\n'


def rendered_prompt(sample: Sample) -> str:
    """The prompt as text, before there is a tokenizer."""
    body = pre_normalize(sample.body) | {"model": "DeepSeek-V4-Pro"}
    converted = recipe.ChatCompletionRequest(body).convert(recipe.ConversionOptions())
    prompt: str = recipe.DeepseekV4Encoding().render_conversation(converted.conversation).prompt
    return prompt
