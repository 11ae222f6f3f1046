"""/v1/completions."""

from __future__ import annotations

from api import checks
from api.case import LONG, text

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
    text("token ids as the prompt", 400, prompt=[5, 6, 7]),
    text("empty prompt", 400, prompt=""),
    text("a list with an empty prompt", 400, prompt=["a", ""]),
    text("`max_tokens: 0`", 400, max_tokens=0),
    text("input too long", 400, prompt=LONG),
    text("input of 900,000 bytes", 400, prompt="word " * 180_000),
    text("`stop_regex`", 400, stop_regex="((((a|b|c|d|[^~])*)*)*)*~~$"),
    text("`logit_bias` with 1,200 entries", 400, logit_bias={str(token): 1 for token in range(1200)}),
    text("nulls where the API allows them", echo=None, n=None, suffix=None, best_of=None, logprobs=None),
    text("unknown model", 404, model="nosuch"),
)
