"""Whatever JSON a client sends: a dialect makes a request of it, or refuses it in words. It never breaks, and it makes
nothing else of a value of the wrong kind.
"""

from __future__ import annotations

import json
import random
from functools import cache
from typing import Any

import orjson
import pytest
from dsv4_pd.run.front import body, dialects
from dsv4_pd.run.front.dialects.base import Asked, Facts
from dsv4_pd.run.front.errors import Refusal
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from front.conftest import CHAT, HELLO, door
from front.recorded import answer
from front.test_dialects import BASES, REQUESTS
from front.wrong import WHOLE, WRONG, Path, at, paths, replaced

FACTS = Facts("m", "smg", 100, 1)
WORDS = sorted({word for _, sent, _ in REQUESTS.values() for word in sent} | {"model", "messages", "prompt", "input"})
INNER = ["type", "function", "name", "parameters", "role", "content", "thinking", "text", "tool_calls", "id", "mode",
         "allowed_tools", "tools", "json_schema", "schema", "function_call", "arguments", "input_schema"]  # fmt: skip
scalars = st.one_of(st.none(), st.booleans(), st.integers(-3, 2**40), st.floats(allow_nan=False), st.text(max_size=5),
                    st.sampled_from(["auto", "function", "tool", "assistant", "user", "enabled", "m"]))  # fmt: skip
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(INNER), inner, max_size=4)),
    max_leaves=12,
)
# One answer of a real router and one stream of it for each route that changes them.
ANSWERS = {
    CHAT: ("chat tool two", "chat tool stream two"),
    "/v1/completions": ("completion", "completion stream usage"),
    "/v1/messages": ("msg tool two", "msg tool two stream"),
    "/v1/responses": ("resp tool two", "resp tool two stream"),
}


def prepared(path: str, sent: dict[str, Any]) -> Asked | None:
    """What becomes of a request, and of an answer to it; None where it is refused in words."""
    raw = orjson.dumps(sent) if _depth_fits(sent) else _written(sent)
    try:
        asked = dialects.prepare(path, body.parsed(raw), FACTS)
        body.written(asked.body)
    except Refusal as refusal:
        assert 400 <= refusal.status < 500
        assert refusal.message
        return None
    assert asked.slots >= 0
    _answered(path, asked)
    return asked


def _depth_fits(sent: Any) -> bool:
    try:
        return bool(orjson.dumps(sent))
    except orjson.JSONEncodeError:
        return False


def _written(sent: Any) -> bytes:
    """JSON of any depth; Python's own writer has no bound of orjson's."""
    return json.dumps(sent).encode()


@cache
def _recorded(name: str) -> bytes:
    return answer(name).text.encode()


def _answered(path: str, asked: Asked) -> None:
    """The request's changes take a real answer."""
    if path not in ANSWERS:
        return
    whole, stream = ANSWERS[path]
    if asked.answer is not None:
        orjson.dumps(asked.answer(orjson.loads(_recorded(whole))))
    if asked.events is not None:
        assert asked.events().block(_recorded(stream)).endswith(b"\n\n")


def _may_be(path: Path, value: Any) -> bool:
    """Whether the value is right there in another spelling, or says nothing; the dialects' own tests hold these."""
    if value is None or path[-1] == "data":  # of a redacted thought, which is left out
        return True
    if path[-1] in ("thinking", "enable_thinking", "enabled"):
        return isinstance(value, bool)
    # one object for all prompts or a list of them; an effort may be a number, and gets another name
    return path == ("sampling_params",) or path == ("reasoning", "effort")


def _passed(path: Path) -> Path:
    """Where a value stands after it: functions are passed on as tools."""
    return ("tools", path[1], "function", *path[2:]) if path[0] == "functions" and len(path) > 1 else path


CASES = [(where, whole, path) for where, whole in WHOLE for path in paths(whole)]


@pytest.mark.parametrize(("where", "whole"), WHOLE)
def test_the_whole_requests_are_served(where: str, whole: dict[str, Any]) -> None:
    assert prepared(where, whole) is not None


@pytest.mark.parametrize(("where", "whole", "path"), CASES, ids=[f"{w}:{'.'.join(map(str, p))}" for w, _, p in CASES])
def test_a_value_of_a_wrong_kind_is_refused_or_passed_on_as_it_is(
    where: str, whole: dict[str, Any], path: Path
) -> None:
    """Every field that a dialect reads x a value of each kind. The servers judge what the front leaves alone."""
    right = at(whole, path)
    for value in WRONG:
        asked = prepared(where, replaced(whole, path, value))
        if asked is None or type(value) is type(right) or _may_be(path, value):
            continue
        found = at(asked.body, _passed(path))
        assert (type(found), found) == (type(value), value), (path, value, asked.body)


@pytest.mark.parametrize("seed", range(4))
def test_several_wrong_values_break_nothing(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(1000):
        where, sent = chance.choice(WHOLE)
        for _ in range(chance.randint(2, 4)):
            sent = replaced(sent, chance.choice(list(paths(sent))), chance.choice(WRONG[:-2]))
            if not sent:
                break
        prepared(where, sent)


@pytest.mark.parametrize("path", sorted(BASES))
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(fields=st.dictionaries(st.sampled_from(WORDS), values, max_size=5), keep=st.booleans())
def test_no_body_breaks_a_dialect(path: str, fields: dict[str, Any], keep: bool) -> None:
    prepared(path, {**(BASES[path] if keep else {}), "model": "m", **fields})


async def test_a_body_of_any_depth_is_no_defect() -> None:
    """The servers refuse it where it is passed on as it came; written again it is refused here."""
    deep = b'{"model": "m", "stream": true, "messages": %b1%b}' % (b"[" * 600, b"]" * 600)
    tools = b'{"model": "m", "messages": [], "tools": [{"function": {"x": %b1%b}}]}' % (b"[" * 600, b"]" * 600)
    async with door() as d:
        for sent in (deep, tools):
            status, found, _ = await d.post(CHAT, sent)
            assert (status, found["error"]["type"]) == (400, "invalid_request_error")
        assert d.router.heard == []


async def test_a_defect_of_ours_is_one_error_in_the_form_of_the_api(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise KeyError("x")

    monkeypatch.setattr(dialects, "prepare", broken)
    async with door() as d:
        status, found, headers = await d.post(CHAT, HELLO)
        assert (status, found["error"]["type"]) == (500, "server_error")
        assert headers["x-request-id"]
        assert d.front.service.admission.used == 0
