"""Every class of request is sent once, with the sizes of the appliance, and what it compiled is told by name."""

from __future__ import annotations

from typing import Any

import pytest
from dsv4_pd.client.api import Api, Reply
from dsv4_pd.client.ops import Ops
from dsv4_pd.client.warm import asked_of, warm
from dsv4_pd.errors import ApplianceError
from dsv4_pd.plan.guard.warm_up import RequestClass, classes, words
from dsv4_pd.verify.prompts import filler


def by_name(kinds: tuple[RequestClass, ...]) -> dict[str, RequestClass]:
    assert len({kind.name for kind in kinds}) == len(kinds)
    return {kind.name: kind for kind in kinds}


def test_the_classes_of_a_real_host() -> None:
    found = by_name(classes(8192, 524288, 64))
    assert list(found) == [
        "short prompt", "prompt of more than 64 tokens", "prompt of one chunk", "prompt of several chunks",
        "prefix hit", "prefix hit, short rest", "sampled answer", "sampled answer with min_p",
        "answer under a schema",
        "batch of 2", "batch of 4", "batch of 8", "batch of 16", "batch of 32", "batch of 64",
    ]  # fmt: skip
    assert found["short prompt"].prompt_tokens <= 64 < found["prompt of more than 64 tokens"].prompt_tokens
    assert 64 < found["prompt of one chunk"].prompt_tokens < 8192 < 16384 < found["prompt of several chunks"].tokens
    assert found["prefix hit"].fresh_tokens > 64 >= found["prefix hit, short rest"].fresh_tokens > 0


@pytest.mark.parametrize(("chunk", "context", "running"), [(2048, 4096, 16), (8192, 8192, 1), (64, 256, 3), (1, 1, 1)])
def test_every_class_fits(chunk: int, context: int, running: int) -> None:
    found = by_name(classes(chunk, context, running))
    assert all(kind.tokens <= context and kind.count <= running for kind in found.values())
    several = found.get("prompt of several chunks")
    assert several is None or several.prompt_tokens > chunk


def test_a_hit_begins_as_what_was_sent_before_and_nothing_else_does() -> None:
    kinds = classes(8192, 524288, 8)
    texts = [
        (kind, " ".join(filler(count, seed) for seed, count in words(kind, number)))
        for kind in kinds
        for number in range(kind.count)
    ]
    sent = {kind.name: text for kind, text in texts}
    for hit in ("prefix hit", "prefix hit, short rest"):
        assert sent[hit].startswith(sent["prompt of one chunk"] + " ")
    assert sent["prefix hit"][-200:] != sent["prefix hit, short rest"][-200:]
    cold = [text[:60] for kind, text in texts if not kind.fresh_tokens]
    assert len(set(cold)) == len(cold)


class Appliance(Ops):
    """Compiles a kernel at the first prompt of more than 100 words."""

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:1")
        self.prompts: list[str] = []

    def status(self) -> dict[str, Any]:
        row = {"member": "prefill", "system": "tilelang", "kernel": "mhc_post", "count": 1, "seconds": 31.0}
        old = {"member": "decode", "system": "triton", "kernel": "a", "count": 3, "seconds": 1.0}
        late = any(len(prompt.split()) > 100 for prompt in self.prompts)
        return {"compiles": {"kernels": [old, row] if late else [old]}}


class Client(Api):
    def __init__(self, appliance: Appliance, broken: str = "") -> None:
        super().__init__("http://127.0.0.1:1", "m")
        self.appliance, self.broken = appliance, broken

    def complete(self, prompt: str, *, stream: bool = False, **options: Any) -> Reply:
        self.appliance.prompts.append(prompt)
        if options.get("temperature"):
            assert "top_p" in options or "min_p" in options
        refused = self.broken and len(prompt.split()) > 1000
        return Reply(500, error="boom") if refused else Reply(200, seconds=options["max_tokens"] / 100)

    def chat(self, messages: Any, *, stream: bool = False, timeout: float | None = None, **options: Any) -> Reply:
        assert options["response_format"]["json_schema"]["schema"]["additionalProperties"] is False
        self.appliance.prompts.append(str(messages))
        return Reply(200, seconds=0.01)


def test_what_each_class_compiled_is_told() -> None:
    appliance = Appliance()
    found = list(warm(Client(appliance), appliance, classes(8192, 524288, 4), filler))
    compiled = {one.kind.name: one.compiled for one in found if one.compiled}
    assert compiled == {"prompt of more than 64 tokens": ("tilelang mhc_post (prefill)",)}
    assert [one.compile_seconds for one in found][:3] == [0.0, 31.0, 0.0]
    assert not any(one.failure for one in found)
    assert len(appliance.prompts) == sum(one.kind.count for one in found) == 9 + 2 + 4


def test_a_class_that_fails_is_told_and_the_others_go_on() -> None:
    appliance = Appliance()
    found = list(warm(Client(appliance, "yes"), appliance, classes(8192, 524288, 2), filler))
    assert {one.kind.name for one in found if one.failure == "boom"} == {
        "prompt of one chunk", "prompt of several chunks", "prefix hit", "prefix hit, short rest",
    }  # fmt: skip
    assert found[-1].failure == ""


@pytest.mark.parametrize("about", [{}, {"sizes": {}}, {"sizes": {"chunk": "x", "context": 1, "running": 1}}, None])
def test_an_appliance_without_sizes_is_refused(about: object) -> None:
    with pytest.raises(ApplianceError, match="sizes"):
        asked_of({"about": about})
    assert asked_of({"about": {"sizes": {"chunk": 8192, "context": 524288, "running": 64}}})
