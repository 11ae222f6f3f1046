"""What a pair refuses, as pure functions of a request: its own words or None.

Both servers get the same body from the router, so both must come to the same answer. Where only one refuses, the
other waits for it until DSV4_LINK_TIMEOUT, and the router waits with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from dsv4_gate.fields import inner_fields, unknown_parameters
from dsv4_gate.schemas import is_scalar
from dsv4_gate.sizes import MOST_NAME, large_fields, large_names, too_long

# field of the engine's request -> why a pair has no use for it; a value other than its default is refused
UNSERVED = {
    "input_embeds": "prefill refuses it and decode would wait for the transfer; send text or input_ids",
    "positional_embed_overrides": "it has no form that travels over HTTP, and the attempt ends the scheduler",
    "session_params": "sessions live in one server and a pair is two; send the whole prompt, its prefix is cached",
    "image_data": "this model takes text only",
    "video_data": "this model takes text only",
    "audio_data": "this model takes text only",
    "multi_item_delimiter_indices": "scoring of several items is not carried over the link",
    "token_indices_to_pool": "scoring of several items is not carried over the link",
    "return_hidden_states": "hidden states stay in the server that computed them",
    "return_routed_experts": "expert routing stays in the server that computed it",
    "return_indexer_topk": "the indexer's choice stays in the server that computed it",
    "disagg_prefill_dp_rank": "there is one prefill",
    "decode_tp_size": "decode's layout is fixed",
    "bootstrap_pair_key": "there is one pair",
    "kv_hints": "cache hints come from an orchestrator, not from a client",
}


MOST_TOKENS_SHOWN = 1024
MOST_LOGPROBS = 128  # what prefill can hand over of the first token; one more ends its scheduler


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """What one request may ask of this server."""

    most: int  # prompts x n, in one request
    vocabulary: int  # token ids are below
    pair: bool  # prefill and decode apart
    context_length: int  # tokens
    longest: int  # bytes of the longest token


def refusal(request: Any, limits: RequestLimits) -> str | None:
    """Why this request of the engine cannot be served; what only a pair can't do is no matter to a single server."""
    pair = chain(_unserved(request), _bad_counts(request, limits)) if limits.pair else ()
    return next(
        chain(
            _bad_prompts(request, limits),
            _bad_numbers(request, limits),
            _stop_patterns(request),
            _large(request),
            inner_fields(request),
            chain.from_iterable(map(unknown_parameters, sampling_list(request))),
            pair,
        ),
        None,
    )


def _unserved(request: Any) -> Iterator[str]:
    for field, reason in UNSERVED.items():
        if _is_set(getattr(request, field, None)):
            yield f"{field} is not served by a prefill/decode pair: {reason}"


def _bad_prompts(request: Any, limits: RequestLimits) -> Iterator[str]:
    """Prompts that end prefill's scheduler, and with it every request in flight: both were tried on SGLang 0.5.23."""
    for prompt in prompt_list(request):
        if len(prompt) == 0:
            yield "the prompt is empty, expected at least one token"
        elif reason := too_long(prompt, limits.context_length, limits.longest):
            yield reason
        elif not isinstance(prompt, str) and not 0 <= min(prompt) <= max(prompt) < limits.vocabulary:
            yield f"a token id is outside the vocabulary, expected 0 to {limits.vocabulary - 1}"


def _bad_numbers(request: Any, limits: RequestLimits) -> Iterator[str]:
    """Numbers that end the scheduler: more candidates than tokens, or a whole number that fits no 32-bit tensor."""
    most = min(MOST_LOGPROBS, limits.vocabulary)
    if bad := [top for top in _each(request.top_logprobs_num) if not 0 <= top <= most]:
        yield f"top log probabilities: {bad[0]} asked for, expected 0 to {most}"
    if bad := [start for start in _each(request.logprob_start_len) if start < -1]:
        yield f"logprob_start_len is {bad[0]}, expected -1 (the answer only) or a position in the prompt"
    for parameters in sampling_list(request):
        for name, value in parameters.items():
            bits = 31 if type(value) is int and name != "sampling_seed" else 63
            if bad := [number for number in _numbers(value) if not -(1 << bits) <= number < 1 << bits]:
                yield f"{name} is {str(bad[0])[:40]}, expected a number of {bits} bits"


def _numbers(value: Any) -> list[int]:
    """Whole numbers of a value that is one, or a list of some."""
    return [item for item in (value if isinstance(value, list) else [value]) if type(item) is int]


def _stop_patterns(request: Any) -> Iterator[str]:
    """The scheduler searches them after each token, with Python's `re`, which may never finish for one of 60 bytes."""
    if any(parameters.get("stop_regex") for parameters in sampling_list(request)):
        yield (
            "stop_regex is not served: a pattern can hold up every other request; use stop, or search the answer as it "
            "is streamed"
        )


def _large(request: Any) -> Iterator[str]:
    """What is walked, tokenized or logged for as long as it is large."""
    yield from large_names(request)
    if len(getattr(request, "token_ids_logprob", None) or ()) > MOST_TOKENS_SHOWN:
        yield f"token_ids_logprob has {len(request.token_ids_logprob)} entries, expected at most {MOST_TOKENS_SHOWN}"
    for parameters in sampling_list(request):
        yield from large_fields(parameters)


def _bad_counts(request: Any, limits: RequestLimits) -> Iterator[str]:
    prompts = prompt_list(request)
    counts = [samples(parameters) for parameters in sampling_list(request)]
    bad = [count for count in counts if type(count) is not int or count < 1]
    if bad:
        yield f"n is {bad[0]!r}, expected a whole number of at least 1"
    elif len(set(counts)) > 1:
        yield f"n differs between the prompts ({counts!r}), expected one value"
    elif (total := len(prompts) * max(counts, default=1)) > limits.most:
        yield (
            f"prompts x n is {total}, expected at most {limits.most} (DSV4_MAX_RUNNING_REQUESTS), which is what decode "
            "runs at once; split the request"
        )


def completion_refusal(request: Any) -> str | None:
    """Fields of /v1/completions that the engine would ignore without a word."""
    best_of = getattr(request, "best_of", None)
    if best_of is not None and best_of != max(1, request.n):
        return f"best_of is {best_of}, expected n ({request.n}) or nothing: candidates are not ranked; use n"
    if getattr(request, "suffix", None):
        return "suffix is not served: the model fills no gaps"
    if request.echo and request.logprobs is not None:
        return "echo with logprobs is not served: log probabilities of the prompt stay in prefill"
    return None


def chat_refusal(request: Any) -> str | None:
    """What /v1/chat/completions would answer wrongly without a word."""
    wanted = request.response_format
    if wanted is None or wanted.type != "json_schema":
        return None
    schema = getattr(wanted.json_schema, "schema_", None)
    if schema is None or not is_scalar(schema):  # without a schema the engine has its own words
        return None
    return "response_format.json_schema: the answer would be no object or list, expected a schema of type object"


def model_refusal(asked: str, served: str, placeholder: str) -> str | None:
    """The name of a model that is not here. `placeholder` is what the engine fills in when a client names none."""
    if asked in (served, placeholder):
        return None
    return f"The model {asked[:MOST_NAME]!r} does not exist here; this server has {served!r}."


def prompt_list(request: Any) -> list[Any]:
    """The prompts as a list, whichever of the two ways they came; token ids as lists."""
    if request.text is not None:
        return [request.text] if isinstance(request.text, str) else list(request.text)
    ids = request.input_ids
    if ids is None:
        return []
    return list(ids) if len(ids) > 0 and not isinstance(ids[0], int) else [ids]


def sampling_list(request: Any) -> list[dict[str, Any]]:
    """Sampling parameters as a list; one entry stands for all prompts."""
    given = request.sampling_params
    return [given or {}] if not isinstance(given, list) else given


def samples(parameters: dict[str, Any]) -> Any:
    """How many answers a prompt gets.

    >>> samples({"n": None}), samples({"n": 3})
    (1, 3)
    """
    given = parameters.get("n")
    return 1 if given is None else given


def _each(value: Any) -> list[Any]:
    """The values of a field that may be given once or per prompt."""
    return [item for item in (value if isinstance(value, list) else [value]) if item is not None]


def _is_set(value: Any) -> bool:
    return value is not None and value is not False and value not in ([], {})
