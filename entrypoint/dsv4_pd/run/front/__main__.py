"""`python -m dsv4_pd.run.front --config front.json`; every field of the configuration is also an option of its own."""

from __future__ import annotations

import argparse
import logging
import sys
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from dsv4_pd.plan.front.client_keys import KeysError
from dsv4_pd.plan.front.config import FrontConfig
from dsv4_pd.run.front import server


def main(argv: list[str]) -> int:
    """Serve until told to stop; 2 for a configuration that can't be used, 75 for a port that is taken."""
    logging.basicConfig(level=logging.INFO, format="[%(asctime)s] %(message)s", datefmt="%Y-%m-%dT%H:%M:%S")
    logging.getLogger("aiohttp").setLevel(logging.CRITICAL)  # a client that breaks a connection is no news
    try:
        server.run(read(argv))
    except (KeysError, TypeError, ValueError) as error:
        print(f"dsv4-pd front: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"dsv4-pd front: {error.filename or ''} {error.strerror or error}".replace(":  ", ": "), file=sys.stderr)
        return 75
    return 0


def read(argv: list[str]) -> FrontConfig:
    """The file, with what the options say over it."""
    parser = argparse.ArgumentParser(prog="dsv4-pd front")
    parser.add_argument("--config", type=Path, help="front.json, as the plan writes it")
    for field in fields(FrontConfig):
        parser.add_argument("--" + field.name.replace("_", "-"), default=None)
    found = vars(parser.parse_args(argv))
    file = found.pop("config")
    given = {name: _typed(name, text) for name, text in found.items() if text is not None}
    if file is None:
        missing = [field.name for field in fields(FrontConfig) if field.default is MISSING and field.name not in given]
        if missing:
            parser.error(f"expected --config or {', '.join('--' + name for name in missing)}")
        return FrontConfig(**given)
    from dataclasses import replace

    return replace(FrontConfig.from_json(file.read_text(encoding="utf-8")), **given)


def _typed(name: str, text: str) -> Any:
    kind = str(FrontConfig.__annotations__[name])
    if kind.startswith("tuple"):
        return tuple(filter(None, text.split(",")))
    if kind.startswith("bool"):
        return text in ("1", "true", "on")
    return int(text) if kind.startswith("int") else float(text) if kind.startswith("float") else text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
