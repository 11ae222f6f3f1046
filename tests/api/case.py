"""One request of the conformance run, and the words that build one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from api import checks
from api.client import BEARER, KEY

CHAT, TEXT, NATIVE = "/v1/chat/completions", "/v1/completions", "/generate"
MESSAGES, RESPONSES = "/v1/messages", "/v1/responses"
MODEL = "dsv4-demo"
LONG = "word " * 9000  # the context of the demo is 4096 tokens
BIG = 1 << 40


@dataclass(frozen=True, slots=True)
class Case:
    """`want` is the status through sglang-router, `smg` the one through smg where it differs; `check` is asked of
    every 200. `header`: how the key is sent. `method`: POST with a body, GET without one, unless it is named.
    """

    name: str
    path: str
    body: Any
    want: int = 200
    smg: int | None = None
    check: checks.Check = checks.served
    key: str | None = field(default=KEY, repr=False)
    header: str = BEARER
    method: str | None = None

    def wanted(self, router: str) -> int:
        """The status that must come back."""
        return self.smg if router == "smg" and self.smg is not None else self.want

    @property
    def stream(self) -> bool:
        """Whether a served answer must be a stream."""
        return isinstance(self.body, dict) and self.body.get("stream") is True


def chat(
    name: str, want: int = 200, check: checks.Check = checks.message, smg: int | None = None, **fields: Any
) -> Case:
    plain = {
        "model": MODEL,
        "messages": [{"role": "user", "content": "What is the capital of France?"}],
        "max_tokens": 16,
    }
    return Case(name, CHAT, {**plain, "temperature": 0, **fields}, want, smg, check)


def text(
    name: str, want: int = 200, check: checks.Check = checks.one_answer, smg: int | None = None, **fields: Any
) -> Case:
    plain = {"model": MODEL, "prompt": "two plus three", "max_tokens": 8, "temperature": 0}
    return Case(name, TEXT, {**plain, **fields}, want, smg, check)


def native(
    name: str,
    want: int = 200,
    check: checks.Check = checks.served,
    smg: int | None = None,
    sampling: dict[str, Any] | None = None,
    **fields: Any,
) -> Case:
    parameters = {"max_new_tokens": 8, "temperature": 0, **(sampling or {})}
    prompt = {} if {"input_ids", "input_embeds"} & set(fields) else {"text": "two plus three"}
    return Case(name, NATIVE, {**prompt, "sampling_params": parameters, **fields}, want, smg, check)


def messages(name: str, smg: int = 200, check: checks.Check = checks.served, **fields: Any) -> Case:
    """Anthropic's API, which sglang-router lacks: `smg` is the status."""
    plain = {"model": MODEL, "max_tokens": 60, "temperature": 0, "messages": user("Who are you?")}
    return Case(name, MESSAGES, {**plain, **fields}, 404, smg, check)


def responses(name: str, smg: int = 200, check: checks.Check = checks.served, **fields: Any) -> Case:
    """OpenAI's responses, which sglang-router lacks: `smg` is the status."""
    plain = {"model": MODEL, "input": "Who are you?", "max_output_tokens": 60, "temperature": 0}
    return Case(name, RESPONSES, {**plain, **fields}, 404, smg, check)


def user(content: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": content}]
