"""One running pair for the whole module, and the model's own tokens to hold it against."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.pair import MODEL, VENVS, Pair

ENGINE = VENVS / "engine/bin/python"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with Pair(tmp_path_factory.mktemp("pair")) as running:
        yield running


@pytest.fixture(scope="session")
def reference() -> Callable[[list[tuple[str, int]]], list[dict[str, Any]]]:
    """Prompts with a number of tokens → their prompt ids and greedy ids."""

    def greedy(prompts: list[tuple[str, int]]) -> list[dict[str, Any]]:
        asked = json.dumps([{"text": text, "tokens": count} for text, count in prompts])
        command = [str(ENGINE), str(Path(__file__).with_name("reference.py")), str(MODEL)]
        done = subprocess.run(command, input=asked, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        answer: list[dict[str, Any]] = json.loads(done.stdout)
        return answer

    return greedy
