"""What `tools` makes of requests, in the engine's own path: the renderer's input, and the grammar of an answer."""

from __future__ import annotations

from typing import Any

from dsv4_hooks.table import Around
from sglang.srt.entrypoints.openai.protocol import Function, Tool
from sglang.srt.entrypoints.openai.responses_adapters import custom_tool_parameters
from sglang.srt.function_call.deepseekv4_detector import DeepSeekV4Detector

from dsv4_gate.targets import RENDER, RESPONSES, SAMPLING
from dsv4_gate.tools import either, evened


def _render(original: Around, adapter: Any, body: Any, **options: Any) -> Any:
    return original(adapter, evened(body), **options)


def _sampling(original: Around, request: Any, *arguments: Any, **named: Any) -> Any:
    """With tools and a form of the answer, the engine's grammar is the form alone, and no tool can be called."""
    if not _has_both(request):
        return original(request, *arguments, **named)
    if request.tool_choice != "auto":  # a call is asked for, so the form has nothing to say
        return original(request.model_copy(update={"response_format": None}), *arguments, **named)
    return _either(original(request, *arguments, **named), _calls(request.tools, request.parallel_tool_calls))


def _either(parameters: Any, calls: Any) -> Any:
    """Where the answer is held to a form: to calls of tools, or to that form."""
    if calls is not None and (schema := parameters.pop("json_schema", None)):
        parameters["structural_tag"] = either(calls, schema)
    return parameters


def _responses(original: Around, request: Any, *arguments: Any, **named: Any) -> Any:
    """The same for /v1/responses, whose engine refuses strict tools beside a form and never calls others."""
    tools = _called_tools(request)
    if not (tools and request.has_json_schema_constraint() and request.tool_choice != "none"):
        return original(request, *arguments, **named)
    if request.effective_tool_choice() != "auto":
        return original(request.model_copy(update={"text": None}), *arguments, **named)
    parameters = original(request, *arguments, **{**named, "tool_call_constraint": None})
    return _either(parameters, _calls(tools, request.parallel_tool_calls is not False))


def _called_tools(request: Any) -> list[Tool]:
    """The tools that a client runs, as the engine's endpoint makes them; the others can't be called here."""
    return [
        Tool(type="function", function=Function(name=tool.name, description=tool.description, strict=tool.strict,
                                                parameters=_parameters(tool)))
        for tool in request.tools
        if tool.type in ("function", "custom") and tool.name
    ]  # fmt: skip


def _parameters(tool: Any) -> Any:
    return custom_tool_parameters() if tool.type == "custom" else tool.parameters


def _has_both(request: Any) -> bool:
    form = request.response_format
    json_wanted = form is not None and form.type in ("json_schema", "json_object")
    return bool(json_wanted and request.tools and request.tool_choice != "none")


def _calls(tools: list[Tool], parallel: bool) -> Any:
    """The model's own form of at least one call, as the engine has it for `tool_choice: required`."""
    tag = DeepSeekV4Detector().get_structural_tag(
        tools=tools,
        tool_choice="required",
        thinking_mode=False,  # the reasoning parser has the thoughts, and the grammar begins after them
        parallel_tool_calls=parallel,
    )
    return None if tag is None else tag.model_dump(by_alias=True)


AROUND: dict[str, Around] = {RENDER: _render, SAMPLING: _sampling, RESPONSES: _responses}
