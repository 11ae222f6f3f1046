"""Target -> replacement, as data: everything that a plugin changes in the engine, importable without the engine."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dsv4_hooks import targets
from dsv4_hooks.record import Record

# (the engine's function, its positional arguments ..., its named ones ...) -> what the engine gets
Around = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Context:
    """What a hook may need beside the call: the target's signature, and the record for its fallbacks."""

    name: str
    signature: inspect.Signature
    record: Record


@dataclass(frozen=True, slots=True)
class Hook:
    """One function of the engine, and what runs around it.

    name: in records and logs · target: dotted path · parameters: the engine's, in order.
    load: imports what the hook needs and returns it; called once the targets of the whole table have passed.
    required: the engine calls the target before a server is ready, so the guard waits for the first call.
    """

    name: str
    target: str
    parameters: tuple[str, ...]
    load: Callable[[Context], Around]
    required: bool = False


def check(hook: Hook) -> inspect.Signature:
    """The target exists and takes exactly the parameters of the table. Raises EngineChanged."""
    return targets.require_parameters(hook.target, targets.resolve(hook.target), hook.parameters)


def install(hooks: Sequence[Hook], record: Record, put: Callable[[str, Around], object]) -> None:
    """All or none: `put(target, around)` is called once every target has passed its check and every hook is loaded.

    The engine applies hooks after register() has returned, so here a patch is `installed`; its first call makes it
    `active`.
    """
    signatures = {hook.name: check(hook) for hook in hooks}
    ready = [(hook, hook.load(Context(hook.name, signatures[hook.name], record))) for hook in hooks]
    record.required = tuple(hook.name for hook in hooks if hook.required)
    for hook, around in ready:
        put(hook.target, _marked(record, hook.name, around))
        record.installed(hook.name)


def _marked(record: Record, name: str, around: Around) -> Around:
    def marked(original: Around, *arguments: Any, **named: Any) -> Any:
        record.active(name)
        return around(original, *arguments, **named)

    return marked


def put_around(target: str, around: Around) -> None:
    """SGLang's own way to change a function (entry-point group `sglang.srt.plugins`)."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    HookRegistry.register(target, around, HookType.AROUND)
