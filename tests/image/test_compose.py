"""`docker compose --profile demo up`: one stack for the whole module, in the order in which an operator meets it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from support.containers import ROOT, Stack, chat, get_json, health_of, inside, new_stack, wait_for
from support.docker_sdk import Container, Image

pytestmark = pytest.mark.docker
KEY = "k3y-with-$igns-and 'quotes'"


@pytest.fixture(scope="module")
def stack(image: Image, image_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    stack = new_stack(f"dsv4-test-{os.getpid()}", image_name, tmp_path_factory.mktemp("secrets") / "api_key", KEY)
    try:
        stack.compose("up", "-d", "--no-build")
        stack.watch()
        yield stack
    finally:
        stack.compose("down", "-v", "-t", "60")


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
    """Bootstrap, servers, gloo, UCX, torch's rendezvous, metrics and supervisord stay inside."""
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
    assert container.attrs["HostConfig"]["PidsLimit"] == 16384
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


# the file and the image


def test_versions_agree(image: Image) -> None:
    """The compose file, the image's label and the file that its front door reads."""
    version = (ROOT / "docker/compose-version").read_text().strip()
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    assert {services[name]["environment"]["DSV4_COMPOSE_VERSION"] for name in ("dsv4-pd", "demo")} == {version}
    assert image.labels["dsv4-pd.compose-version"] == version
