"""The options of a program's own argument parser as JSON: [[option, destination], ...].

Run by the program's interpreter: `python list_flags.py engine|sglang_router|smg`.
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


if __name__ == "__main__":
    options = [[text, action.dest] for action in parser_of(sys.argv[1])._actions for text in action.option_strings]
    print(json.dumps(options))
