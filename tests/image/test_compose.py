"""`docker compose --profile demo up`: one stack for the whole module, in the order in which an operator meets it."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker
import pytest
import yaml
from docker.models.containers import Container
from docker.models.images import Image
from dsv4_pd.settings.schema import names
from support.containers import ROOT, chat, free_ports, get_json, health_of, inside, sh, wait_for

pytestmark = pytest.mark.docker
KEY = "k3y-with-$igns-and 'quotes'"
# Set by the image or by compose.yaml itself: ports and folders inside a container never collide.
NOT_PASSED = {
    "DSV4_HOST", "DSV4_PORT", "DSV4_OPS_PORT", "DSV4_API_KEY", "DSV4_PREFILL_PORT", "DSV4_DECODE_PORT",
    "DSV4_BOOTSTRAP_PORT", "DSV4_PREFILL_NCCL_PORT", "DSV4_DECODE_NCCL_PORT", "DSV4_ROUTER_METRICS_PORT",
    "DSV4_RUN_DIR", "DSV4_STATE_DIR", "DSV4_CACHE_DIR", "DSV4_ENGINE_PYTHON", "DSV4_ROUTER_PYTHON",
}  # fmt: skip


@dataclass(slots=True)
class Stack:
    """The demo as compose runs it, and what was seen while it started."""

    project: str
    environ: dict[str, str]
    api: str
    ops: str
    seen: list[tuple[str, dict[str, Any]]] = field(default_factory=list)  # (Docker's health, /status)

    def compose(self, *words: str) -> str:
        return sh("docker", "compose", "-p", self.project, "--profile", "demo", *words, **self.environ)

    def container(self) -> Container:
        return docker.from_env().containers.get(f"{self.project}-demo-1")


@pytest.fixture(scope="module")
def stack(image: Image, image_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    key = tmp_path_factory.mktemp("secrets") / "api_key"
    key.write_text(KEY + "\n")
    key.chmod(0o640)
    os.chown(key, 0, 0)
    port, ops = free_ports(2)
    environ = {"DSV4_IMAGE": image_name, "DSV4_PORT": str(port), "DSV4_OPS_PORT": str(ops), "API_KEY_FILE": str(key),
               "API_BIND": "127.0.0.1"}  # fmt: skip
    stack = Stack(f"dsv4-test-{os.getpid()}", environ, f"http://127.0.0.1:{port}", f"http://127.0.0.1:{ops}")
    try:
        stack.compose("up", "-d", "--no-build")
        watch_start(stack)
        yield stack
    finally:
        stack.compose("down", "-v", "-t", "60")


def watch_start(stack: Stack) -> None:
    """Record Docker's word and the appliance's own, twice a second, until Docker says healthy."""
    container = stack.container()

    def healthy() -> bool:
        status = health_of(container)
        assert container.status == "running", container.logs(tail=60).decode()
        stack.seen.append((status, get_json(f"{stack.ops}/status")))
        return status == "healthy"

    try:
        wait_for("healthy", healthy)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{stack.seen[-1]}\n{container.logs(tail=60).decode()}") from error


def roles_ready(status: dict[str, Any]) -> bool:
    roles = status.get("roles", {})
    return bool(roles) and all(roles[name]["ready"] for name in ("prefill", "decode"))


def test_starting_until_both_servers_are_ready(stack: Stack) -> None:
    words = [word for word, _ in stack.seen]
    assert words[0] == "starting"
    assert set(words[:-1]) == {"starting"}
    assert words[-1] == "healthy"
    assert any(status and not roles_ready(status) for word, status in stack.seen if word == "starting")
    assert roles_ready(stack.seen[-1][1])


def test_up_with_wait_returns_once_healthy(stack: Stack) -> None:
    """As the README prints it."""
    stack.compose("up", "--wait", "--no-build")
    assert health_of(stack.container()) == "healthy"


def test_chat_from_outside(stack: Stack) -> None:
    status, text = chat(stack.api, KEY)
    assert (status, bool(text)) == (200, True), text
    assert chat(stack.api, "wrong")[0] == 401


def test_a_secret_shows_nowhere(stack: Stack) -> None:
    container = stack.container()
    container.reload()
    assert KEY not in json.dumps(container.attrs)
    assert KEY not in container.logs().decode()
    assert KEY not in inside(container, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert KEY not in json.dumps(get_json(f"{stack.ops}/status"))
    assert files_with(container, KEY, "10001:0"), "the search works: the servers' own configuration holds it"
    assert not files_with(container, KEY, "65534:65534")


def files_with(container: Container, text: str, user: str) -> list[str]:
    """Files in which a user inside the container can find a text, the mounted secret aside."""
    script = 'grep -rlsF -e "$1" /run /tmp /var/lib /var/cache; true'
    _, found = container.exec_run(["sh", "-c", script, "sh", text], user=user)
    return [name for name in found.decode().splitlines() if name != "/run/secrets/api_key"]


def test_only_published_ports_leave_loopback(stack: Stack) -> None:
    """Bootstrap, servers, gloo, UCX, metrics and supervisord stay inside."""
    rows = inside(stack.container(), "cat /proc/net/tcp /proc/net/tcp6").splitlines()
    listening = [row.split()[1].split(":") for row in rows if " 0A " in row]
    loopback = ("0100007F", "00000000000000000000000001000000")
    assert {int(port, 16) for address, port in listening if address in loopback} >= {30000, 30001, 8998}
    docker_dns = "0B00007F"
    outside = {int(port, 16) for address, port in listening if address not in (*loopback, docker_dns)}
    assert outside == {8000, 8001}


def test_root_is_read_only_and_nothing_grows_outside_mounts(stack: Stack) -> None:
    container = stack.container()
    container.reload()
    assert container.attrs["HostConfig"]["ReadonlyRootfs"]
    assert container.attrs["HostConfig"]["CapDrop"] == ["ALL"]
    assert container.exec_run(["touch", "/opt/dsv4-pd/x"])[0] != 0
    assert inside(container, "cat /proc/1/comm").strip() == "tini"
    assert inside(container, "id -u").strip() != "0"


def test_killed_decode_comes_back(stack: Stack) -> None:
    container = stack.container()
    pid = get_json(f"{stack.ops}/status")["roles"]["decode"]["pid"]
    inside(container, f"kill -9 {pid}")
    wait_for("not READY", lambda: get_json(f"{stack.ops}/status").get("state") not in (None, "READY"), 30, 0.1)
    wait_for("READY again", lambda: get_json(f"{stack.ops}/status").get("state") == "READY")
    wait_for("healthy again", lambda: health_of(container) == "healthy", 60)
    assert container.attrs["RestartCount"] == 0
    assert get_json(f"{stack.ops}/status")["roles"]["decode"]["restarts"] == 1
    assert chat(stack.api, KEY)[0] == 200


def test_idle_stop_within_dockers_own_grace(stack: Stack) -> None:
    """Last: `docker stop` with no option, 10 s, exit 0."""
    container = stack.container()
    started = time.monotonic()
    container.stop()
    seconds = time.monotonic() - started
    container.reload()
    state = container.attrs["State"]
    assert (state["ExitCode"], state["OOMKilled"]) == (0, False), container.logs(tail=30).decode()
    assert seconds < 10


# the file itself


@pytest.mark.parametrize("profiles", [(), ("gpu",), ("demo",), ("gpu", "monitoring", "autoheal")])
def test_compose_file_is_valid(engine: docker.DockerClient, profiles: tuple[str, ...]) -> None:
    flags = [word for profile in profiles for word in ("--profile", profile)]
    sh("docker", "compose", *flags, "config", "--quiet")


def test_every_setting_passes_through() -> None:
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    passed = {name for name in services["dsv4-pd"]["environment"] if name.startswith("DSV4_")}
    assert passed | NOT_PASSED == set(names()) | {"DSV4_COMPOSE_VERSION"}
    assert not passed & NOT_PASSED


def test_an_unset_setting_is_absent_and_a_set_one_is_byte_for_byte(tmp_path: Path) -> None:
    config = compose_config(tmp_path, "DSV4_SERVED_MODEL_NAME='a$b # c'\n")
    environment = config["services"]["dsv4-pd"]["environment"]
    assert environment["DSV4_SERVED_MODEL_NAME"].replace("$$", "$") == "a$b # c"
    assert environment["DSV4_MODEL"] is None


def test_no_key_file_means_no_key(tmp_path: Path) -> None:
    """An empty secret must not become an empty key that every client fails to send."""
    for env_file, expected in (("", ""), ("API_KEY_FILE=/etc/hostname\n", "/run/secrets/api_key")):
        environment = compose_config(tmp_path, env_file)["services"]["dsv4-pd"]["environment"]
        assert environment["DSV4_API_KEY_FILE"] == expected


def compose_config(folder: Path, env_file: str) -> dict[str, Any]:
    (folder / "env").write_text(env_file)
    words = ["docker", "compose", "--env-file", str(folder / "env"), "--profile", "gpu", "config", "--format", "json"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    data: dict[str, Any] = json.loads(done.stdout)
    return data


def test_versions_agree(image: Image) -> None:
    """The compose file, the image's label and the file that its front door reads."""
    version = (ROOT / "docker/compose-version").read_text().strip()
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    assert {services[name]["environment"]["DSV4_COMPOSE_VERSION"] for name in ("dsv4-pd", "demo")} == {version}
    assert image.labels["dsv4-pd.compose-version"] == version


def test_stop_grace_exceeds_the_sum_of_the_waits(tmp_path: Path) -> None:
    config = compose_config(tmp_path, "")["services"]["dsv4-pd"]
    assert config["stop_grace_period"] == "1m30s"  # drain 30 s, router, hard ends and the sweep 20 s more
    assert int(config["labels"]["autoheal.stop.timeout"]) >= 90
