"""What prefill and decode must agree on: a difference is found out by decode at the first request, or by nobody. Pure.

Most of it has one source (`programs._common_flags`), and extra arguments may not set it (`owned_flags`). Held here is
what the servers' files say in the end, a profile's tables for one role included.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dsv4_pd.errors import Problem, SettingsError

# Which model, how a request becomes tokens (both tokenize it), and the layout of the KV cache that is handed over.
SHARED = frozenset({
    "model-path", "revision", "tokenizer-path", "tokenizer-mode", "served-model-name", "quantization", "dtype",
    "json-model-override-args", "chat-template", "hf-chat-template-name", "completion-template", "reasoning-parser",
    "tool-call-parser", "context-length", "page-size", "kv-cache-dtype", "speculative-algorithm", "tp-size",
    "default-chat-template-kwargs", "disaggregation-enable-kv-checksum", "enable-deepseek-v4-fp4-indexer",
})  # fmt: skip
Flags = Mapping[str, Any]


def differences(members: Mapping[str, Flags]) -> Iterator[str]:
    """Each shared flag that is not the same everywhere, with who has what.

    >>> list(differences({"prefill": {"page-size": 64}, "decode": {"page-size": 256}, "decode-2": {}}))
    ['--page-size 64 for prefill, 256 for decode, unset for decode-2']
    """
    for flag in sorted(SHARED):
        values = {name: flags.get(flag) for name, flags in members.items()}
        if len({str(value) for value in values.values()}) > 1:
            told = ", ".join(f"{'unset' if value is None else value} for {name}" for name, value in values.items())
            yield f"--{flag} {told}"


def shared(flags: Flags) -> dict[str, str]:
    """What a member tells the others of its flags."""
    return {flag: str(flags[flag]) for flag in sorted(SHARED) if flags.get(flag) is not None}


def check(members: Mapping[str, Flags]) -> None:
    """The servers of a plan, as their files spell the flags.

    Raises:
        SettingsError: with every difference.
    """
    if found := tuple(differences(members)):
        remedy = "correct the profile: what all servers share belongs under [engine.common]"
        raise SettingsError([Problem("DSV4_PROFILE", text, "the same for every server", remedy) for text in found])
