"""Containers of their own: another user, old volumes, exit codes, restart policy."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from support.containers import HARDENED, Runner, chat, get_json, inside, wait_for, wait_healthy
from support.docker_sdk import DockerClient, Volume
from support.ports import free_ports

pytestmark = pytest.mark.docker


@pytest.fixture
def volumes(engine: DockerClient) -> Iterator[dict[str, Volume]]:
    made = {name: engine.volumes.create(f"dsv4-test-{name}-{uuid.uuid4().hex[:8]}") for name in ("cache", "state")}
    yield made
    for volume in made.values():
        volume.remove(force=True)


def test_second_appliance_any_user_old_volumes(volumes: dict[str, Volume], runner: Runner) -> None:
    """Other ports, an unknown user, read-only, no capability, volumes that another image wrote; then its restart."""
    mounts = {
        volumes["cache"].name: {"bind": "/var/cache/dsv4-pd", "mode": "rw"},
        volumes["state"].name: {"bind": "/var/lib/dsv4-pd", "mode": "rw"},
    }
    old = "mkdir /var/cache/dsv4-pd/0123456789ab && echo stale > /var/cache/dsv4-pd/0123456789ab/kernel"
    assert runner.run("sh", "-c", old, volumes=mounts)[0] == 0
    port, ops = free_ports(2)
    container = runner.start(
        "demo", user="12345:0", volumes=mounts, restart_policy={"Name": "unless-stopped"},
        ports={"8000/tcp": ("127.0.0.1", port), "8001/tcp": ("127.0.0.1", ops)}, **HARDENED,
    )  # fmt: skip
    wait_healthy(container)
    assert chat(f"http://127.0.0.1:{port}")[0] == 200
    assert inside(container, "id -u").strip() == "12345"
    assert "set aside, of another image: /var/cache/dsv4-pd/0123456789ab" in container.logs().decode()
    assert inside(container, "cat /var/cache/dsv4-pd/0123456789ab/kernel").strip() == "stale"
    assert inside(container, "ls /var/cache/dsv4-pd | wc -l").strip() == "2"
    # READY came after a warm-up, and every class of request answers; an engine on the CPU compiles nothing.
    warm_up = get_json(f"http://127.0.0.1:{ops}/status")["roles"]["decode"]["warm_up"]
    assert warm_up["done"] == warm_up["classes"] > 0 and not warm_up["failed"], warm_up
    said = inside(container, "dsv4-pd cache warm && dsv4-pd cache status")
    assert "0 kernels compiled" in said and "since the start: 0 compiled" in said, said

    # `serve` dies: nothing inside can heal that, so the container ends and Docker's policy brings it back.
    serve = inside(container, "cat /proc/1/task/1/children").split()[0]
    inside(container, f"kill -9 {serve}")
    wait_for("restarted by Docker", lambda: container.reload() or container.attrs["RestartCount"] == 1, 60)
    wait_healthy(container)
    assert get_json(f"http://127.0.0.1:{ops}/status")["state"] == "READY"


def test_a_component_that_keeps_failing_ends_the_container_with_1(runner: Runner) -> None:
    environment = {"DSV4_RESTART_LIMIT": "1", "DSV4_SAFE_MODE": "off", "DSV4_ENGINE_PYTHON": "/bin/false"}
    code, output = runner.run("demo", environment=environment, **HARDENED)
    assert code == 1, output
    assert "prefill" in output.splitlines()[-1] or "decode" in output.splitlines()[-1]
