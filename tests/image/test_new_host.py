"""A prebuilt image on a new host: a registry on loopback, and a second Docker Engine that has never seen the image."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from docker.models.images import Image
from support.containers import HARDENED, ROOT, free_ports, inside, sh, wait_for, wait_healthy

pytestmark = [pytest.mark.docker, pytest.mark.slow]
BASE = "debian:bookworm-slim"
ASK = (
    "import json, urllib.request as u;"
    "r = u.Request('http://127.0.0.1:8000/v1/chat/completions', json.dumps({'model': 'dsv4-demo', 'max_tokens': 4,"
    " 'messages': [{'role': 'user', 'content': 'hello'}]}).encode(), {'Content-Type': 'application/json'});"
    "print(u.urlopen(r, timeout=60).status)"
)


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    program = program_path("docker-registry")
    folder = tmp_path_factory.mktemp("registry")
    port = free_ports(1)[0]
    (folder / "config.yml").write_text(
        f"version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {folder}/data}}}}\n"
        f"http: {{addr: '127.0.0.1:{port}'}}\n"
    )
    with subprocess.Popen([program, "serve", str(folder / "config.yml")]) as process:
        yield f"127.0.0.1:{port}"
        process.terminate()
    shutil.rmtree(folder, ignore_errors=True)


def program_path(name: str) -> str:
    found = shutil.which(name, path=sh(str(ROOT / "docker/engine-on-debian.sh"), "path").strip())
    if not found:
        pytest.skip(f"no {name}: docker/engine-on-debian.sh brings it on Debian 12")
    return found


@pytest.fixture(scope="module")
def new_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[docker.DockerClient]:
    """A second daemon with an empty store. It has no bridge, so its containers are asked from inside."""
    dockerd = program_path("dockerd")
    root = tmp_path_factory.mktemp("host")
    socket, log = f"unix://{root}/docker.sock", root / "dockerd.log"
    argv = [dockerd, "--data-root", f"{root}/data", "--exec-root", f"{root}/exec", "--pidfile", f"{root}/pid",
            "-H", socket, "--bridge", "none", "--iptables=false", "--ip6tables=false", "--log-level=error"]  # fmt: skip
    path = sh(str(ROOT / "docker/engine-on-debian.sh"), "path").strip()
    process = subprocess.Popen(argv, env={**os.environ, "PATH": path}, stdout=log.open("w"), stderr=subprocess.STDOUT)
    try:
        wait_for(
            "the second engine's socket", lambda: (root / "docker.sock").exists() or process.poll() is not None, 60
        )
        assert process.poll() is None, log.read_text()
        yield wait_for("the second engine", lambda: connect(socket), 60)
    finally:
        process.terminate()
        process.wait(60)
        shutil.rmtree(root, ignore_errors=True)


def connect(socket: str) -> docker.DockerClient | None:
    try:
        return docker.DockerClient(socket, timeout=600)
    except (docker.errors.DockerException, OSError):
        return None


def test_push_then_pull_by_digest_and_serve(
    engine: docker.DockerClient, image: Image, registry: str, new_host: docker.DockerClient
) -> None:
    name = f"{registry}/dsv4-pd:test"
    image.tag(name)
    try:
        reference = sh("make", "-s", "push", f"IMAGE={name}", timeout_s=900).strip().splitlines()[-1]
    finally:
        engine.images.remove(name)
    assert reference.startswith(f"{registry}/dsv4-pd@sha256:")
    pulled = new_host.images.pull(reference)
    assert pulled.id == image.id
    container = new_host.containers.run(
        reference, ["demo"], detach=True, network_mode="none", **{**HARDENED, "user": "10001:0"}
    )
    try:
        wait_healthy(container)
        answer = inside(container, f'/opt/dsv4-pd/venvs/appliance/bin/python -c "{ASK}"')
        assert answer.strip() == "200"
        container.stop(timeout=30)
        container.reload()
        assert container.attrs["State"]["ExitCode"] == 0
    finally:
        container.remove(force=True)


def test_bundle_loads_on_a_host_without_a_registry(
    engine: docker.DockerClient, new_host: docker.DockerClient, scratch: Path
) -> None:
    """Tried with a small image, because the scripts do not care which one they carry."""
    engine.images.get(BASE).tag("dsv4-bundle", "1")
    bundle = Path(sh(str(ROOT / "docker/bundle.sh"), "dsv4-bundle:1", str(scratch)).strip())
    engine.images.remove("dsv4-bundle:1")
    host = {"DOCKER_HOST": f"unix://{new_host.api.get_adapter('http+docker://').socket_path}"}
    said = sh(str(bundle / "install.sh"), **host)
    assert "loaded dsv4-bundle:1" in said
    assert new_host.images.get("dsv4-bundle:1")
    assert "DSV4_IMAGE=dsv4-bundle:1" in (bundle / ".env").read_text()

    (bundle / "compose.yaml").write_text("changed")
    done = subprocess.run([bundle / "install.sh"], capture_output=True, text=True, env={**os.environ, **host})
    assert done.returncode == 1
    assert "a file differs from SHA256SUMS" in done.stderr
