"""The Dockerfile's two flavours, read as text: what each is made of. tests/image builds the large one."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from support import setup_engine

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "Dockerfile").read_text()


@pytest.fixture(scope="module")
def native() -> ModuleType:
    """demo/setup_engine.py, which makes the same engine without an image."""
    return setup_engine.load()


def stages(flavour: str) -> dict[str, tuple[str, str]]:
    """Name -> (what it is built from, its steps) with the flavour put in."""
    parts = re.split(r"^FROM (\S+) AS (\S+)$", TEXT, flags=re.MULTILINE)[1:]
    return {
        name: (base.replace("${FLAVOUR}", flavour), steps)
        for base, name, steps in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    }


def chain(flavour: str) -> list[str]:
    """The stages whose layers an image of the flavour holds, the last first."""
    found, name = stages(flavour), "appliance"
    names = []
    while name in found:
        names.append(name)
        name = found[name][0]
    assert name == "${BASE}"
    return names


def steps(flavour: str) -> str:
    found = stages(flavour)
    text = "\n".join(found[name][1] for name in chain(flavour))
    return re.sub(r"^\s*#.*$", "", text, flags=re.MULTILINE)


def test_each_flavour_is_a_chain_down_to_the_base() -> None:
    assert chain("engine") == ["appliance", "caches-engine", "routers", "engine", "system"]
    assert chain("engine-cpu") == ["appliance", "caches-engine-cpu", "routers", "engine-cpu", "system-cpu"]
    assert re.search(r"^ARG FLAVOUR=engine$", TEXT, re.MULTILINE), "a plain build makes the large one"


def test_the_demo_s_flavour_installs_what_make_demo_does(native: ModuleType) -> None:
    """One engine for the demo, whether native or in an image."""
    locks = set(re.findall(r"-r /src/([\w-]+\.lock)", stages("engine-cpu")["engine-cpu"][1]))
    assert locks == {*native.ENGINE.locks, native.CPU_TORCH_LOCK}
    text = steps("engine-cpu")
    for folder in (*native.ENGINE.ours, native.STANDINS):
        name = re.search(r'^name = "(.+)"', (ROOT / folder / "pyproject.toml").read_text(), re.MULTILINE)
        assert name
        from_stage = [stage for stage, (_, does) in stages("engine-cpu").items() if f"COPY {folder} " in does]
        assert len(from_stage) == 1 and f"from={from_stage[0]}," in text, folder
    assert "dsv4_cpu_pd.selfcheck" in text and native.ENGINE.check == ("-m", "dsv4_cpu_pd.selfcheck")


def test_the_demo_s_flavour_holds_no_cuda_and_no_compiler() -> None:
    text = steps("engine-cpu")
    for word in ("toolkit.sh", "cuda-layer.awk", "/engine.lock", "gcc", "g++", "bake-", "CUDA_HOME="):
        assert word not in text, word
    assert "torch.version.cuda is None" in text
    large = steps("engine")
    assert "gcc" in large and "/src/engine.lock" in large and "/src/engine-cpu" not in large


def test_every_folder_that_is_copied_reaches_the_build() -> None:
    """.dockerignore leaves out all but what it names."""
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    kept = {line[1:] for line in ignored if line.startswith("!")}
    copied = set(re.findall(r"^COPY (?!--from)(\S+) ", TEXT, re.MULTILINE))
    assert len(copied) > 8
    assert [name for name in copied if not any(name == one or name.startswith(f"{one}/") for one in kept)] == []


WHEELS = re.compile(
    r"^FROM tools AS (wheel-\w+)\n((?:COPY .+\n)+)RUN (.+) -w /wheels (.+) && ls /wheels$", re.MULTILINE
)


def wheels(folder: Path, day: str) -> dict[str, str]:
    """What the image build's own commands make of a copy whose files are of that day: name -> SHA-256."""
    for _, copies, command, sources in WHEELS.findall(TEXT):
        for name, target in re.findall(r"^COPY (\S+) /(\S+)$", copies, re.MULTILINE):
            left_out = shutil.ignore_patterns("build", "*.egg-info", "__pycache__")
            shutil.copytree(ROOT / name, folder / target, ignore=left_out)
            subprocess.run(["find", folder / target, "-exec", "touch", "-d", day, "{}", "+"], check=True)
        there = " ".join(f"{folder}{source}" for source in sources.split())
        line = f"{command.replace('/tools/bin/python', sys.executable)} -w {folder}/wheels {there}"
        subprocess.run(["sh", "-c", line], check=True, capture_output=True)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (folder / "wheels").glob("*.whl")}


@pytest.mark.slow
def test_two_clones_make_the_same_wheels(tmp_path: Path) -> None:
    """Their digest is part of the caches' key, so a rebuild of a commit must not lose what users compiled."""
    first = wheels(tmp_path / "one", "2025-01-01")
    assert len(first) == 6 and first == wheels(tmp_path / "two", "2025-02-03")


def test_make_hands_in_the_wheel_and_the_budget() -> None:
    done = subprocess.run(
        ["make", "-n", "image-demo", "IMAGE=r.example/x:1"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    said = " ".join(done.stdout.replace("\\\n", " ").split())
    assert "--build-arg FLAVOUR=engine-cpu" in said and "--build-context wheels=build/image-inputs/wheels" in said
    assert "-t r.example/x:1-demo" in said and "docker/layers.sh r.example/x:1-demo 2500000000" in said
    assert "-r docker/engine-cpu-torch.lock" in said and "download.pytorch.org/whl/cpu" in said
