"""A prebuilt image on a new host: a registry on loopback, and a second Docker Engine that has never seen the image."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.containers import HARDENED, ROOT, inside, sh, wait_for, wait_healthy
from support.docker_sdk import DockerClient, Image, docker
from support.ports import free_ports

pytestmark = [pytest.mark.docker, pytest.mark.slow]
BASE = "debian:bookworm-slim"
ASK = (
    "import json, urllib.request as u;"
    "r = u.Request('http://127.0.0.1:8000/v1/chat/completions', json.dumps({'model': 'dsv4-demo', 'max_tokens': 4,"
    " 'messages': [{'role': 'user', 'content': 'hello'}]}).encode(), {'Content-Type': 'application/json'});"
    "print(u.urlopen(r, timeout=60).status)"
)


@dataclass(frozen=True, slots=True)
class Registry:
    """A registry on loopback; a second process over the same folder serves it in another network namespace."""

    address: str
    argv: tuple[str, ...]


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    program = program_path("docker-registry")
    folder = tmp_path_factory.mktemp("registry")
    address = f"127.0.0.1:{free_ports(1)[0]}"
    config = folder / "config.yml"
    config.write_text(
        f"version: 0.1\nlog: {{level: error}}\nhttp: {{addr: '{address}'}}\n"
        f"storage: {{filesystem: {{rootdirectory: {folder}/data}}}}\n"
    )
    argv = (program, "serve", str(config))
    with running(*argv):
        yield Registry(address, argv)
    shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def running(*argv: str, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends with the block, whatever happens in it."""
    process = subprocess.Popen(argv, **options)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


def program_path(name: str) -> str:
    found = shutil.which(name, path=engine_path())
    if not found:
        pytest.skip(f"no {name}: docker/engine-on-debian.sh brings it on Debian 12")
    return found


def engine_path() -> str:
    return sh(str(ROOT / "docker/engine-on-debian.sh"), "path").strip()


@pytest.fixture(scope="module")
def new_host(tmp_path_factory: pytest.TempPathFactory, registry: Registry) -> Iterator[DockerClient]:
    """A second daemon with an empty store, in a network of its own with the registry on its loopback.

    It must not share the first one's network: a daemon without a bridge deletes docker0 when it starts. Its
    containers are asked from inside.
    """
    root = tmp_path_factory.mktemp("host")
    socket, log = root / "docker.sock", root / "dockerd.log"
    daemon = (
        f"exec {program_path('dockerd')} --data-root {root}/data --exec-root {root}/exec --pidfile {root}/pid "
        f"-H unix://{socket} --bridge none --iptables=false --ip6tables=false --log-level error"
    )
    environment = {**os.environ, "PATH": engine_path()}
    argv = ("unshare", "--net", "sh", "-c", f"ip link set lo up && {daemon}")
    with log.open("w") as out, running(*argv, env=environment, stdout=out, stderr=out) as host:
        wait_for("the second engine's socket", lambda: socket.exists() or host.poll() is not None, 60)
        assert host.poll() is None, log.read_text()
        with running("nsenter", f"--net=/proc/{host.pid}/ns/net", *registry.argv):
            yield wait_for("the second engine", lambda: connect(f"unix://{socket}"), 60)
    shutil.rmtree(root, ignore_errors=True)


def connect(socket: str) -> DockerClient | None:
    try:
        return docker.DockerClient(socket, timeout=600)
    except (docker.errors.DockerException, OSError):
        return None


def test_push_then_pull_by_digest_and_serve(
    engine: DockerClient, image: Image, registry: Registry, new_host: DockerClient
) -> None:
    name = f"{registry.address}/dsv4-pd:test"
    image.tag(name)
    try:
        reference = sh("make", "-s", "push", f"IMAGE={name}", timeout_s=900).strip().splitlines()[-1]
    finally:
        engine.images.remove(name)
    assert reference.startswith(f"{registry.address}/dsv4-pd@sha256:")
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


def test_bundle_loads_on_a_host_without_a_registry(engine: DockerClient, new_host: DockerClient, scratch: Path) -> None:
    """Tried with a small image, because the scripts do not care which one they carry."""
    (scratch / "sbom.cdx.json").write_text("{}")
    (scratch / "Dockerfile").write_text(f"FROM {BASE}\nCOPY sbom.cdx.json /opt/dsv4-pd/\n")
    head = sh("git", "rev-parse", "HEAD").strip()
    label = f"--label=org.opencontainers.image.revision={head}"
    sh("docker", "build", "-q", "-t", "dsv4-bundle:1", label, str(scratch))
    bundle = Path(sh(str(ROOT / "docker/bundle.sh"), "dsv4-bundle:1", str(scratch)).strip())
    engine.images.remove("dsv4-bundle:1")
    key, signers = scratch / "key", scratch / "signers"
    sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key))
    signers.write_text(f"dsv4-pd {key.with_suffix('.pub').read_text()}")
    sh("make", "-s", "sign", f"BUNDLE={bundle}", f"KEY={key}", f"SIGNERS={signers}")
    host = f"unix://{new_host.api.get_adapter('http+docker://').socket_path}"
    said = sh(str(bundle / "install.sh"), "--signers", str(signers), DOCKER_HOST=host)
    assert "signed with ED25519 key" in said and "installed dsv4-bundle:1" in said
    assert new_host.images.get("dsv4-bundle:1")
    assert "DSV4_IMAGE=dsv4-bundle:1" in (bundle / ".env").read_text()

    (bundle / "compose.yaml").write_text("changed")
    done = subprocess.run(
        [bundle / "install.sh", "--signers", signers],
        capture_output=True,
        text=True,
        env={**os.environ, "DOCKER_HOST": host},
    )
    assert done.returncode == 1
    assert "a file differs from SHA256SUMS" in done.stderr
