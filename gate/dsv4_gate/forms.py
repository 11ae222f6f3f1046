"""xgrammar's own form of a grammar, by way of the engine's own dispatch: what the scheduler will compile."""

from __future__ import annotations

from typing import Any

import xgrammar
from sglang.srt.constrained.base_grammar_backend import InvalidGrammarObject
from sglang.srt.constrained.xgrammar_backend import XGrammarGrammarBackend

from dsv4_gate.grammar_form import VERSION, FormChanged


class _Forms:
    """In place of the compiler: the same calls, the grammar instead of its masks for a vocabulary."""

    def compile_json_schema(self, schema: str, any_whitespace: bool, max_whitespace_cnt: int | None) -> Any:
        return xgrammar.Grammar.from_json_schema(
            schema, any_whitespace=any_whitespace, max_whitespace_cnt=max_whitespace_cnt
        )

    def compile_grammar(self, text: str) -> Any:
        return xgrammar.Grammar.from_ebnf(text)

    def compile_regex(self, text: str) -> Any:
        return xgrammar.Grammar.from_regex(text)

    def compile_structural_tag(self, tag: Any) -> Any:
        return xgrammar.Grammar.from_structural_tag(tag)


class _Dispatch(XGrammarGrammarBackend):  # type: ignore[misc]
    def __init__(self) -> None:  # the engine's own wants a vocabulary
        self.grammar_compiler = _Forms()
        self.any_whitespace = True
        self.max_whitespace_cnt = None

    def _from_context(self, ctx: Any, key_string: str, grammar_stats: Any) -> Any:
        return ctx


def form(kind: str, text: str) -> str:
    """JSON of xgrammar's rules; ValueError where the text is none of this kind."""
    found = _found(kind, text)
    if isinstance(found, InvalidGrammarObject):
        raise ValueError(found.error_message)  # noqa: TRY004
    serialized: str = found.serialize_json()
    return serialized


def _found(kind: str, text: str) -> Any:
    if "\0" in text or "\\u0000" in text:
        raise ValueError("NUL bytes are not allowed")
    try:
        return getattr(_Dispatch(), f"dispatch_{kind}")(text)
    except Exception as error:  # the engine's future would carry it to the client as well
        raise ValueError(f"{type(error).__name__}: {error}") from error


def check() -> None:
    """The installed xgrammar writes what is read here."""
    if (found := xgrammar.get_serialization_version()) != VERSION:
        raise FormChanged(f"xgrammar's grammars have version {found!r}, expected {VERSION!r}")
