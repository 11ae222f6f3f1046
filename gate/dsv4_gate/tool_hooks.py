"""What `tools` makes of requests, in the engine's own path: the renderer's input, and the grammar of an answer."""

from __future__ import annotations

from typing import Any

from dsv4_hooks.table import Around
from sglang.srt.function_call.deepseekv4_detector import DeepSeekV4Detector

from dsv4_gate.targets import RENDER, SAMPLING
from dsv4_gate.tools import either, evened


def _render(original: Around, adapter: Any, body: Any, **options: Any) -> Any:
    return original(adapter, evened(body), **options)


def _sampling(original: Around, request: Any, *arguments: Any, **named: Any) -> Any:
    """With tools and a form of the answer, the engine's grammar is the form alone, and no tool can be called."""
    if not _has_both(request):
        return original(request, *arguments, **named)
    if request.tool_choice != "auto":  # a call is asked for, so the form has nothing to say
        return original(request.model_copy(update={"response_format": None}), *arguments, **named)
    parameters = original(request, *arguments, **named)
    calls = _calls(request)
    if calls is not None and (schema := parameters.pop("json_schema", None)):
        parameters["structural_tag"] = either(calls, schema)
    return parameters


def _has_both(request: Any) -> bool:
    form = request.response_format
    json_wanted = form is not None and form.type in ("json_schema", "json_object")
    return bool(json_wanted and request.tools and request.tool_choice != "none")


def _calls(request: Any) -> Any:
    """The model's own form of at least one call, as the engine has it for `tool_choice: required`."""
    tag = DeepSeekV4Detector().get_structural_tag(
        tools=request.tools,
        tool_choice="required",
        thinking_mode=False,  # the reasoning parser has the thoughts, and the grammar begins after them
        parallel_tool_calls=request.parallel_tool_calls,
    )
    return None if tag is None else tag.model_dump(by_alias=True)


AROUND: dict[str, Around] = {RENDER: _render, SAMPLING: _sampling}
