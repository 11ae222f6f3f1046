"""The image on a real Docker Engine. `make image` builds what these tests run."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.containers import ROOT, Runner
from support.docker_sdk import Container, DockerClient, Image, docker

VERSION = re.search(r'^version = "(.*)"', (ROOT / "entrypoint/pyproject.toml").read_text(), re.MULTILINE)


@pytest.fixture(scope="session")
def engine() -> DockerClient:
    client = docker.from_env(timeout=600)
    try:
        client.ping()
    except docker.errors.DockerException as error:
        pytest.fail(f"no Docker Engine answers ({error}); run `make docker-engine`")
    return client


@pytest.fixture(scope="session")
def image_name() -> str:
    assert VERSION
    return os.environ.get("TEST_IMAGE") or f"dsv4-pd:{VERSION[1]}"


@pytest.fixture(scope="session")
def image(engine: DockerClient, image_name: str) -> Image:
    try:
        return engine.images.get(image_name)
    except docker.errors.ImageNotFound:
        pytest.fail(f"no image {image_name}; run `make image`")


@pytest.fixture
def runner(engine: DockerClient, image: Image) -> Iterator[Runner]:
    """Runs containers of the image and removes them, with their anonymous volumes, at the end."""
    started: list[Container] = []
    yield Runner(engine, image, started)
    for container in started:
        container.remove(force=True, v=True)


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """A folder for large files, gone right after the test."""
    yield tmp_path
    shutil.rmtree(tmp_path, ignore_errors=True)
