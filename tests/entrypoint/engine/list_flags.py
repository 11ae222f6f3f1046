"""The options of a program's own argument parser as JSON: [[option, destination], ...], {option: how many values}, or
what the values must be, {option: {"type": ..., "choices": [...]}}. With lists of words, whether it ends on each.

Run by the program's interpreter: `python list_flags.py engine|sglang_router|smg [values|kinds|WORDS]`.
"""

import argparse
import importlib
import json
import sys
from typing import Any


def parser_of(name: str) -> argparse.ArgumentParser:
    """The parser, as the program builds it."""
    caught: list[argparse.ArgumentParser] = []
    keep = argparse.ArgumentParser.parse_args

    def parse_args(self: argparse.ArgumentParser, *args: Any, **kwargs: Any) -> Any:
        caught.append(self)
        raise SystemExit

    if name == "engine":
        parser = argparse.ArgumentParser()
        importlib.import_module("sglang.srt.server_args").ServerArgs.add_cli_args(parser)
        return parser
    argparse.ArgumentParser.parse_args = parse_args  # type: ignore[method-assign]
    try:
        importlib.import_module(f"{name}.launch_router").parse_router_args([])
    except SystemExit:
        pass
    finally:
        argparse.ArgumentParser.parse_args = keep  # type: ignore[method-assign]
    return caught[0]


TYPES = {"int": "int", "float": "float", "loads": "json", "json_list_type": "json", "_non_negative_int": "int"}


def kind_of(action: argparse.Action) -> dict[str, Any]:
    """What a value must be, as far as JSON can say it; types that are functions of the program's own are left out."""
    name = TYPES.get(getattr(action.type, "__name__", ""))
    found: dict[str, Any] = {"type": name} if name else {}
    # In an order of its own: some are sets, whose order is another one in each process.
    return found | ({"choices": sorted(action.choices, key=repr)} if action.choices else {})


def ends_on(parser: argparse.ArgumentParser, words: list[str]) -> bool:
    """Whether the program would end instead of starting. What it requires stands in its file of flags."""
    for action in parser._actions:
        action.required = False
    try:
        parser.parse_args(words)
    except SystemExit:
        return True
    return False


if __name__ == "__main__":
    actions = parser_of(sys.argv[1])._actions
    if sys.argv[2:] == ["values"]:
        takes = {
            text: 1 if action.nargs is None else action.nargs for action in actions for text in action.option_strings
        }
        print(json.dumps(dict(sorted(takes.items()))))
    elif sys.argv[2:] == ["kinds"]:
        kinds = {text: kind for action in actions if (kind := kind_of(action)) for text in action.option_strings}
        print(json.dumps(dict(sorted(kinds.items()))))
    elif sys.argv[2:]:
        parser = parser_of(sys.argv[1])
        print(json.dumps([ends_on(parser, words) for words in json.loads(sys.argv[2])]))
    else:
        print(json.dumps([[text, action.dest] for action in actions for text in action.option_strings]))
