"""Every request of the conformance run: what is sent, what must come back through each router."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from api import checks
from api.client import KEY
from api.schemas import ADD, TREE, needs, nested, schema

CHAT, TEXT, NATIVE = "/v1/chat/completions", "/v1/completions", "/generate"
MODEL = "dsv4-demo"
LONG = "word " * 9000  # the context of the demo is 4096 tokens
BIG = 1 << 40


@dataclass(frozen=True, slots=True)
class Case:
    """`want` is the status through sglang-router, `smg` the one through smg where it differs."""

    name: str
    path: str
    body: Any
    want: int = 200
    smg: int | None = None
    check: checks.Check = checks.served
    key: str | None = field(default=KEY, repr=False)

    def wanted(self, router: str) -> int:
        """The status that must come back."""
        return self.smg if router == "smg" and self.smg is not None else self.want


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


def user(content: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": content}]


CHATS = (
    chat("plain"),
    chat("`stream`", stream=True, check=checks.streamed()),
    chat("`stream_options.include_usage`", stream=True, stream_options={"include_usage": True},
         check=checks.streamed(usage=True)),
    chat("`n: 2`", n=2, check=checks.answers(2)),
    chat("`n: 4`, `temperature: 1`, streaming", n=4, temperature=1, stream=True, check=checks.streamed(4)),
    chat("`n: 0`", 400, n=0),
    chat("`n: 200`", 400, n=200),
    chat("`max_completion_tokens`", max_completion_tokens=4),
    chat("`max_tokens: 0`", 400, max_tokens=0),
    chat("`max_tokens` beyond the context", 400, max_tokens=100000),
    chat("input too long", 400, messages=user(LONG)),
    chat("input too long, streaming", 400, messages=user(LONG), stream=True),
    chat("`stop`", stop=["a", "e"], check=checks.content("[^ae]*")),
    chat("`stop` with five strings", 400, stop=list("abcde")),
    chat("`stop_regex`", smg=400, stop_regex="[ae]", check=checks.ignored),
    chat("`stop_token_ids`", stop_token_ids=[5]),
    chat("`logprobs`, `top_logprobs: 3`", logprobs=True, top_logprobs=3, check=checks.logprobs),
    chat("`top_logprobs: 21`", 400, logprobs=True, top_logprobs=21),
    chat("`prompt_logprobs`", prompt_logprobs=1, check=checks.ignored),
    chat("`response_format: json_schema`", response_format=schema(ADD["function"]["parameters"]),
         check=checks.content(r'\{\s*"a"\s*:\s*[12]\s*(\}\s*)?')),
    chat("`response_format` with a schema of type string", 400, response_format=schema({"type": "string"})),
    chat("`response_format` with a schema that is only itself", 400, response_format=schema({"$ref": "#"})),
    chat("`response_format` with a schema that needs itself", 400, response_format=schema(needs({"$ref": "#"}))),
    chat("`response_format` with a schema that is all of itself", 400,
         response_format=schema({"type": "object", "allOf": [{"$ref": "#"}]})),
    chat("`response_format` with two schemas that are each other", 400, response_format=schema(
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}})),
    chat("`response_format` with `$dynamicRef`", 400, response_format=schema(needs({"$dynamicRef": "#"}))),
    chat("`response_format` with a schema of 300 levels", 400, response_format=schema(nested(300))),
    chat("`response_format` with an `enum` of 100,000", 400,
         response_format=schema(needs({"enum": [f"w{number}" for number in range(100_000)]}))),
    chat("`response_format` with the pattern `^(a+)+$`", 400,
         response_format=schema(needs({"type": "string", "pattern": "^(a+)+$"}))),
    chat("`response_format` with a tree that can end", response_format=schema(TREE)),
    chat("`response_format: json_object`", messages=user("json please"), response_format={"type": "json_object"}),
    chat("`response_format` with a bad schema", 400, response_format=schema({"type": "object", "properties": 1})),
    chat("`regex`", regex="[ab]{3}", check=checks.content("[ab]{3}")),
    chat("`regex: (a*)*b`", 400, regex="(a*)*b"),
    chat("`ebnf` that is only itself", 400, ebnf="root ::= root"),
    chat("`ebnf` that begins and ends with itself", 400, ebnf='root ::= root root | "a"'),
    chat("`ebnf`", ebnf='root ::= "a" | "b"', check=checks.content("a|b")),
    chat("`tools`, `tool_choice` absent", tools=[ADD]),
    chat("`tools`, `tool_choice: none`", tools=[ADD], tool_choice="none"),
    chat("`tools`, `tool_choice: auto`, streaming", tools=[ADD], tool_choice="auto", stream=True,
         check=checks.streamed()),
    chat("`tools`, `tool_choice: required`", tools=[ADD], tool_choice="required", max_tokens=64,
         check=checks.called("add")),
    chat("`tools`, a named `tool_choice`", tools=[ADD], max_tokens=64, check=checks.called("add"),
         tool_choice={"type": "function", "function": {"name": "add"}}),
    chat("`tool_choice: required` without tools", 400, tool_choice="required"),
    chat("a tool with a bad schema", 400, tools=[
        {"type": "function", "function": {"name": "add", "parameters": {"type": "nosuch"}}}]),
    chat("a tool that needs itself, `tool_choice: required`", 400, tool_choice="required", tools=[
        {"type": "function", "function": {"name": "add", "parameters": needs({"$ref": "#"})}}]),
    chat("thinking absent", check=checks.reasoning(False)),
    chat("`chat_template_kwargs.thinking: true`", chat_template_kwargs={"thinking": True},
         check=checks.reasoning(True)),
    chat("`chat_template_kwargs.thinking: false`", chat_template_kwargs={"thinking": False},
         check=checks.reasoning(False)),
    chat("`reasoning_effort: high`", reasoning_effort="high", check=checks.reasoning(True)),
    chat("`reasoning_effort` unknown", 400, reasoning_effort="nosuch"),
    chat("`thinking: {type: enabled}`", thinking={"type": "enabled"}, check=checks.ignored),
    chat("`seed`, `logit_bias`, penalties", seed=4, logit_bias={"5": 1}, presence_penalty=0.5),
    chat("`logit_bias` outside the vocabulary", 400, logit_bias={"999999999": 1}),
    chat("`user`, `metadata`, `store`, `priority`", user="me", metadata={"a": "b"}, store=True, priority=1),
    chat("`session_params`", session_params={"id": "x"}, check=checks.ignored),
    chat("`lora_path`", 400, lora_path="x"),
    chat("an image", 400, messages=user([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}])),
    chat("unknown model", 404, smg=503, model="nosuch"),
    chat("no messages", 400, messages=[]),
    Case("broken JSON", CHAT, "{", 400),
)  # fmt: skip
TEXTS = (
    text("plain"),
    text("`stream`", stream=True, check=checks.streamed()),
    text("a list of prompts", prompt=["a b", "c d", "e f"], check=checks.answers(3)),
    text("a list of prompts, streaming", prompt=["a b", "c d"], stream=True, check=checks.streamed(2)),
    text("`n: 3`", n=3, check=checks.answers(3)),
    text("two prompts, `n: 2`", prompt=["a b", "c d"], n=2, check=checks.answers(4)),
    text("two prompts, `n: 2`, streaming", prompt=["a b", "c d"], n=2, stream=True, check=checks.streamed(4)),
    text("more prompts than decode runs at once", 400, prompt=["a"] * 17),
    text("`best_of: 3`", 400, best_of=3),
    text("`best_of: 2`, `n: 2`", smg=400, best_of=2, n=2, check=checks.answers(2)),
    text("`echo`", echo=True),
    text("`echo` with `logprobs`", 400, echo=True, logprobs=2),
    text("`logprobs: 2`", logprobs=2, check=checks.completion_logprobs),
    text("`logprobs: 100000`", 400, logprobs=100000),
    text("`prompt_logprobs`", prompt_logprobs=1, check=checks.ignored),
    text("`suffix`", 400, suffix="x"),
    text("token ids as the prompt", 422, smg=400, prompt=[5, 6, 7]),
    text("empty prompt", 400, prompt=""),
    text("a list with an empty prompt", 400, prompt=["a", ""]),
    text("`max_tokens: 0`", 400, max_tokens=0),
    text("input too long", 400, prompt=LONG),
    text("input of 900,000 bytes", 400, prompt="word " * 180_000),
    text("`stop_regex`", 400, stop_regex="((((a|b|c|d|[^~])*)*)*)*~~$"),
    text("`logit_bias` with 1,200 entries", 400, logit_bias={str(token): 1 for token in range(1200)}),
    text("unknown model", 404, smg=503, model="nosuch"),
)
NATIVES = (
    native("plain"),
    native("`stream`", stream=True, check=checks.native_stream),
    native("`n: 2`", sampling={"n": 2}, check=checks.answers(2)),
    native("a list of texts", 422, smg=422, text=["a", "b"]),
    native("`input_ids`", input_ids=[5, 6, 7]),
    native("a list of `input_ids`", input_ids=[[5, 6, 7], [8, 9]], check=checks.answers(2)),
    native("`input_ids` outside the vocabulary", 400, input_ids=[5, 999999999]),
    native("empty text", 400, text=""),
    native("input too long", 400, text=LONG),
    native("input of 900,000 bytes", 400, text="word " * 180_000),
    native("100,000 `input_ids`", 400, input_ids=[5] * 100_000),
    native("`stop_regex`", sampling={"stop_regex": "[ae]"}, check=checks.ignored),
    native("`stop` with a string of 5,000 bytes", 400, sampling={"stop": ["x" * 5000]}),
    native("`return_logprob` from the start of the prompt", return_logprob=True, logprob_start_len=0,
           top_logprobs_num=2, check=checks.prompt_logprobs),
    native("`logprob_start_len: -9`", 400, return_logprob=True, logprob_start_len=-9),
    native("`top_logprobs_num: 100000`", 400, return_logprob=True, top_logprobs_num=100000),
    native("`max_new_tokens: 0`", sampling={"max_new_tokens": 0}),
    native("`top_k` of 41 bits", 422, sampling={"top_k": BIG}),
    native("`beam_width: 2`", sampling={"beam_width": 2}, check=checks.ignored),
    native("`input_embeds`", 400, input_embeds=[[0.1, 0.2]]),
    native("`session_params`", 400, session_params={"id": "x"}),
    native("`lora_path`", 400, lora_path="x"),
    native("`image_data`", 400, image_data="http://example.org/x.png"),
    native("`return_hidden_states`", 400, return_hidden_states=True),
    native("`return_routed_experts`", 200, smg=400, check=checks.ignored, return_routed_experts=True),
    native("`custom_logit_processor`", 400, custom_logit_processor="x"),
    native("`data_parallel_rank: 3`", 400, data_parallel_rank=3),
)  # fmt: skip
HELLO = {"model": MODEL, "max_tokens": 8, "messages": user("hi")}
ASK = {"model": MODEL, "input": "hi", "max_output_tokens": 8}
OTHERS = (
    Case("`GET /v1/models`", "/v1/models", None, check=checks.listed(MODEL)),
    Case("`POST /v1/messages`", "/v1/messages", HELLO, 404, 200),
    Case("`POST /v1/messages`, streaming", "/v1/messages", {**HELLO, "stream": True}, 404, 200),
    Case("`POST /v1/messages/count_tokens`", "/v1/messages/count_tokens", HELLO, 404, 200),
    Case("`POST /v1/responses`", "/v1/responses", ASK, 501, 200),
    Case("`POST /v1/responses`, streaming", "/v1/responses", {**ASK, "stream": True}, 501, 200),
    Case("`POST /v1/embeddings`", "/v1/embeddings", {"model": MODEL, "input": "x"}, 501, 501),
    Case("`POST /v1/rerank`", "/v1/rerank", {"model": MODEL, "query": "x", "documents": ["a"]}, 400, 400),
    Case("`POST /v1/classify`", "/v1/classify", {"model": MODEL, "input": "x"}, 501, 501),
    Case("`POST /v1/score`", "/v1/score", {"model": MODEL, "query": "x", "items": ["a"]}, 404, 404),
    Case("`POST /v1/audio/transcriptions`", "/v1/audio/transcriptions", {}, 404, 400),
    Case("`POST /open_session`", "/open_session", {"capacity_of_str_len": 9}, 404, 404),
    Case("`POST /abort_request`", "/abort_request", {"rid": "x"}, 404, 404),
    Case("`GET /server_info`", "/server_info", None, 404, 404),
    Case("`GET /metrics`", "/metrics", None, 404, 404),
)
KEYED = (
    *(
        Case(f"{shown} key, `{path}`", path, body, 401, key=key)
        for shown, key in (("no", None), ("wrong", "wrong"))
        for path, body in (
            (CHAT, HELLO),
            (TEXT, {"model": MODEL, "prompt": "x"}),
            (NATIVE, {"text": "x"}),
            ("/workers", None),
        )
    ),
    Case("no key, `/v1/models`", "/v1/models", None, key=None, check=checks.listed(MODEL)),
)
SECTIONS: dict[str, tuple[Case, ...]] = {
    CHAT: CHATS,
    TEXT: TEXTS,
    NATIVE: NATIVES,
    "Other endpoints": OTHERS,
    "The API key": KEYED,
}
