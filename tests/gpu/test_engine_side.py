"""What the ring has in the engine's environment, on its CPU build: formats, oracle, forced tokens, faults, flags."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from conftest import VENVS
from dsv4_pd.errors import SettingsError
from dsv4_pd.plan.model.files import inspect
from support.engine import resolve, write
from support.plans import eight_cards, make

pytestmark = pytest.mark.engine

TESTS = Path(__file__).resolve().parents[1]
SIDES = [(Path(__file__).parent / name).read_text() for name in ("engine_side.py", "variants_side.py")]
NAMES = re.findall(r"^    ([a-z0-9_]+),$", "\n".join(text[text.index("\nCHECKS = ") :] for text in SIDES), re.MULTILINE)
VARIANTS = {
    "nvfp4": ("", "flashinfer_cutlass", None),
    "dspark": ("dspark", "flashinfer_mxfp4", "DSPARK"),
    "eagle": ("eagle", "flashinfer_mxfp4", "EAGLE"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the engine's side leaves the tiny checkpoint's variants."""
    return tmp_path_factory.mktemp("variants")


@pytest.fixture(scope="module")
def said(folder: Path) -> str:
    paths = (TESTS, TESTS / "gpu/engine", TESTS.parent)
    env = {**os.environ, "PYTHONPATH": ":".join(map(str, paths)), "OMP_NUM_THREADS": "1",
           "RING_VARIANTS": str(folder)}  # fmt: skip
    python = str(VENVS / "engine" / "bin" / "python")
    done = subprocess.run([python, "-Wignore", "-m", "gpu.engine_side"], capture_output=True, text=True, env=env,
                          check=False, timeout=300)  # fmt: skip
    return done.stdout + done.stderr[-2000:]


@pytest.mark.parametrize("name", NAMES)
def test_in_the_engine_s_environment(said: str, name: str) -> None:
    assert f"passed {name}\n" in said, said


def test_all_are_named() -> None:
    assert len(NAMES) == 18


@pytest.mark.parametrize("name", VARIANTS)
def test_the_product_takes_a_variant_for_what_it_is_and_the_engine_resolves_it(
    said: str, folder: Path, tmp_path: Path, name: str
) -> None:
    """The pair's part starts them with these settings; on a card of the product's own."""
    draft, runner, algorithm = VARIANTS[name]
    environ = {"DSV4_MODEL": str(folder / name), "DSV4_CONTEXT_LENGTH": "65536", "DSV4_SPECULATIVE": draft or "off"}
    environ |= {"DSV4_PROFILE": "rtx-pro-6000-8x", "DSV4_CACHE_DIR": str(tmp_path / "c")}
    plan = make(environ, eight_cards(), run=tmp_path / "run")
    found = inspect(folder / name)
    assert not found.problems, found.problems
    write(plan)
    got = resolve(plan, "decode")
    assert (got["moe_runner_backend"], got["speculative_algorithm"]) == (runner, algorithm)
    assert got["attention_backend"] == "dsv4"


def test_the_product_refuses_a_draft_beside_nvfp4(said: str, folder: Path) -> None:
    environ = {"DSV4_MODEL": str(folder / "nvfp4-dspark"), "DSV4_CONTEXT_LENGTH": "65536"}
    make(environ | {"DSV4_SPECULATIVE": "auto"}, eight_cards())
    with pytest.raises(SettingsError, match="whose experts are NVFP4"):
        make(environ | {"DSV4_SPECULATIVE": "dspark"}, eight_cards())
