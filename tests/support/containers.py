"""What the image tests share: running containers, waiting, talking to the appliance."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.docker_sdk import Container, DockerClient, Image, docker
from support.ports import free_ports

ROOT = Path(__file__).resolve().parents[2]
START_S = float(os.environ.get("TEST_START_TIMEOUT_S", "420"))  # 40 s on two idle cores
HARDENED: dict[str, Any] = {"read_only": True, "tmpfs": {"/tmp": "", "/run": ""}, "cap_drop": ["ALL"]}


class Runner:
    """Containers of one image."""

    def __init__(self, engine: DockerClient, image: Image, started: list[Container]) -> None:
        self._engine = engine
        self._image = image
        self.started = started

    def start(self, *command: str, **options: Any) -> Container:
        """A container in the background."""
        container = self._engine.containers.run(self._image.id, list(command), detach=True, **options)
        self.started.append(container)
        return container

    def run(self, *command: str, timeout_s: float = 180.0, **options: Any) -> tuple[int, str]:
        """(exit code as `docker inspect` tells it, output) of a container that ends by itself."""
        container = self.start(*command, **options)
        container.wait(timeout=timeout_s)
        container.reload()
        return int(container.attrs["State"]["ExitCode"]), container.logs().decode()


@dataclass(slots=True)
class Stack:
    """The demo as compose runs it, and what was seen while it started."""

    project: str
    environ: dict[str, Any]
    api: str
    ops: str
    files: tuple[str, ...] = ("compose.yaml",)
    seen: list[tuple[str, dict[str, Any]]] = field(default_factory=list)  # (Docker's health, /status)

    def compose(self, *words: str) -> str:
        files = [word for name in self.files for word in ("-f", name)]
        return sh("docker", "compose", *files, "-p", self.project, "--profile", "demo", *words, **self.environ)

    def container(self) -> Container:
        return docker.from_env().containers.get(f"{self.project}-demo-1")

    def status(self) -> dict[str, Any]:
        return get_json(f"{self.ops}/status")

    def watch(self) -> None:
        """Record Docker's word and the appliance's own, twice a second, until Docker says healthy."""
        container = self.container()

        def healthy() -> bool:
            status = health_of(container)
            assert container.status == "running", container.logs(tail=60).decode()
            self.seen.append((status, self.status()))
            return status == "healthy"

        try:
            wait_for("healthy", healthy)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.seen[-1]}\n{container.logs(tail=60).decode()}") from error


def new_stack(project: str, image: str, key: Path, text: str, files: tuple[str, ...] = ("compose.yaml",)) -> Stack:
    """A stack that is not started, with its key in a file that the container may read."""
    key.write_text(text + "\n")
    key.chmod(0o640)
    os.chown(key, 0, 0)
    port, ops = free_ports(2)
    environ = {"DSV4_IMAGE": image, "DSV4_PORT": str(port), "DSV4_OPS_PORT": str(ops), "DSV4_API_KEY_FILE": str(key),
               "DSV4_HOST": "127.0.0.1"}  # fmt: skip
    return Stack(project, environ, f"http://127.0.0.1:{port}", f"http://127.0.0.1:{ops}", files)


def wait_for(what: str, condition: Callable[[], Any], timeout_s: float = START_S, every_s: float = 0.5) -> Any:
    """The condition's first true value."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(every_s)
    raise AssertionError(f"not within {timeout_s:.0f} s: {what}")


def health_of(container: Container) -> str:
    """`starting`, `healthy` or `unhealthy`, as Docker says it."""
    container.reload()
    return str(container.attrs["State"]["Health"]["Status"])


def wait_healthy(container: Container) -> None:
    def settled() -> bool:
        status = health_of(container)
        assert container.status == "running", f"{container.status}: {container.logs(tail=40).decode()}"
        return status == "healthy"

    try:
        wait_for(f"{container.name} healthy", settled)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{container.logs(tail=60).decode()}") from error


def get_json(url: str, key: str = "") -> dict[str, Any]:
    """A JSON answer, or {} while nobody answers."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"} if key else {})
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            data: dict[str, Any] = json.load(answer)
    except (OSError, ValueError):
        return {}
    return data


def chat(base: str, key: str = "") -> tuple[int, str]:
    """(HTTP status, the answer's text) of one chat completion."""
    body = {"model": "dsv4-demo", "max_tokens": 8, "messages": [{"role": "user", "content": "hello"}]}
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    request = urllib.request.Request(f"{base}/v1/chat/completions", json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            message = json.load(answer)["choices"][0]["message"]
            return int(answer.status), message.get("content") or message.get("reasoning_content") or ""
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(errors="replace")


def inside(container: Container, script: str, user: str = "") -> str:
    """What a shell script inside the container prints; it must succeed."""
    code, output = container.exec_run(["sh", "-c", script], user=user)
    assert code == 0, f"{script!r} exited {code}: {output.decode()}"
    return str(output.decode())


def sh(*argv: str, timeout_s: float = 900, **environ: Any) -> str:
    """A command's output; it must succeed."""
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=timeout_s, cwd=ROOT, env={**os.environ, **environ}
    )
    assert done.returncode == 0, (
        f"{' '.join(argv)} exited {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    )
    return done.stdout
