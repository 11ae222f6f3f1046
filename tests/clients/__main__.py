"""`python -m clients [--write] NAME...`, from tests/: real clients against the real demo, by its front.

Exit 0 when everything that was tried holds, but for the limits that `limits.toml` names. `--write` records each of
these clients of which that is true, and rewrites docs/clients.md from the records of all.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from conftest import ROOT
from support.appliance import Appliance

from clients import page
from clients.running import SCRIPTS, Tried, run

KEY, MODEL = "sk-clients", "dsv4-demo"
# The demo's own context is 4,096 tokens, and its tokenizer takes one for 1.6 to 2 characters: what Codex and aider say
# before any question would not fit. Beyond what it was trained on the model writes nonsense, which is an answer too.
CONTEXT = 65536


def main(argv: list[str]) -> int:
    """Returns 1 where something does not hold that no limit names."""
    parser = argparse.ArgumentParser(prog="clients", description=__doc__)
    parser.add_argument("--write", action="store_true", help="rewrite docs/clients.md")
    parser.add_argument("names", nargs="+", choices=sorted(SCRIPTS), metavar="NAME")
    options = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))  # the appliance ends with this run
    wrong: list[str] = []
    with tempfile.TemporaryDirectory(prefix="clients-") as folder:
        for name, one in against_the_demo(options.names, Path(folder)):
            lines = page.unexplained({name: one.record()}, page.limits())
            wrong += lines
            if options.write and not lines:
                page.store({name: one.record()})
    for line in wrong:
        print(f"FAILED {line}", flush=True)
    print(f"clients: {len(options.names)} tried, {len(wrong)} lines of FAILED", flush=True)
    return int(bool(wrong))


def against_the_demo(names: list[str], folder: Path) -> Iterator[tuple[str, Tried]]:
    """Each client's findings, as they come."""
    settings = {
        "DSV4_API_KEY": KEY,
        "DSV4_MODEL": str(wide(folder / "model")),
        "DSV4_CONTEXT_LENGTH": str(CONTEXT),
        "DSV4_PREFILL_EXTRA_ARGS": f"--max-total-tokens {2 * CONTEXT}",
        "DSV4_DECODE_EXTRA_ARGS": f"--max-total-tokens {2 * CONTEXT}",
    }
    with Appliance(folder, settings) as appliance:
        where = {"BASE": appliance.api, "KEY": KEY, "MODEL": MODEL, "CONTEXT": str(CONTEXT)}
        for name in names:
            yield name, run(name, where, folder)


def wide(folder: Path) -> Path:
    """The demo's model with more positions than it was trained on; weights and tokenizer are the same."""
    shutil.copytree(ROOT / "demo/model", folder)
    for file, field in (("config.json", "max_position_embeddings"), ("tokenizer_config.json", "model_max_length")):
        data = json.loads((folder / file).read_text(encoding="utf-8"))
        (folder / file).write_text(json.dumps({**data, field: 2 * CONTEXT}), encoding="utf-8")
    return folder


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
