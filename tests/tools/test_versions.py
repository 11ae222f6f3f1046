"""A version stands in one place; what repeats it is written from there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from dsv4_hooks.engine import ENGINE_VERSION

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def pinned(file: str, name: str) -> str:
    found = re.search(rf"^{name}==([^\s;\\]+)", (ROOT / "docker" / file).read_text(encoding="utf-8"), re.MULTILINE)
    assert found, f"docker/{file} pins no {name}"
    return found[1]


@pytest.mark.parametrize("file", ["engine.in", "engine.lock", "engine-cpu-nodeps.in", "engine-cpu-nodeps.lock"])
def test_every_lock_has_the_engine_that_the_hooks_are_for(file: str) -> None:
    assert pinned(file, "sglang") == ENGINE_VERSION


def test_the_generator_reads_the_requirement() -> None:
    from generators import engine

    assert engine.text() == (ROOT / "hooks/dsv4_hooks/engine.py").read_text(encoding="utf-8")


def test_the_images_labels_come_from_the_locks() -> None:
    recipe = subprocess.run(["make", "-n", "image"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    given = dict(re.findall(r"--build-arg (\w+)=(\S*)", recipe))
    assert given["SGLANG"] == ENGINE_VERSION
    assert given["ROUTER"] == pinned("router.lock", "sglang-router")
    assert pinned("engine.lock", "nvidia-cuda-nvcc").startswith(f"{given['CUDA']}.")
    assert given["COMPOSE_VERSION"] == (ROOT / "docker/compose-version").read_text().strip()


def test_the_dockerfile_writes_no_version_and_no_folder_twice() -> None:
    labels = re.findall(r"dsv4-pd\.(engine|router|cuda|compose-version)=\"(.*)\"", DOCKERFILE)
    assert len(labels) == 4
    assert all("${" in value for _, value in labels)
    assert DOCKERFILE.count("/lib/python3.11/site-packages") == 1


def test_every_file_that_the_dockerfile_names_is_there() -> None:
    named = set(re.findall(r"\bdocker/[\w./-]+\w", DOCKERFILE))
    assert {"docker/engine.lock", "docker/steps/left-out.toml"} <= named
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_our_distributions_are_named_alike() -> None:
    """One version for what is released together."""
    files = ["entrypoint", "hooks", "gate", "kernels", "demo/plugin"]
    versions = {re.search(r'^version = "(.+)"$', (ROOT / f / "pyproject.toml").read_text(), re.M)[1] for f in files}  # type: ignore[index]
    assert len(versions) == 1
