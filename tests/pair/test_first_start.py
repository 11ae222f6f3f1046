"""docs/new-host.md, word by word: the commands of the first start, with the demo's profile and the model on a stub Hub.

What compose does is stood in for by the table below, a claim that tests/image checks on a real Docker Engine: a
container that is run once is the same command, `up --wait` is `serve` until it is healthy, .env is the environment.
What is hidden: the image itself, the ports that compose publishes, the mount of the key, and everything of a GPU.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT
from support.appliance import START_S, Appliance
from support.hub import Hub, of_folder, running

MODEL = "org/demo"
PAGE = (ROOT / "docs/new-host.md").read_text(encoding="utf-8")
PROGRAM = f"{shlex.quote(sys.executable)} -m dsv4_pd"
WORDS = (
    ("docker compose run --rm dsv4-pd ", f"{PROGRAM} "),
    ("docker compose exec dsv4-pd dsv4-pd ", f"{PROGRAM} "),
    ("docker compose up -d --wait", "UP"),
    ("sudo ", ""),
)


def commands() -> list[str]:
    """Every command of the section, in order."""
    section = PAGE.split("## The first start")[1].split("\n## ")[0]
    blocks = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    return [line.strip() for block in blocks for line in block.splitlines() if line.strip()]


def native(command: str) -> str:
    for theirs, ours in WORDS:
        command = command.replace(theirs, ours)
    return command


@pytest.fixture
def hub() -> Iterator[Hub]:
    with running(Hub(MODEL, of_folder(ROOT / "demo" / "model"))) as stub:
        yield stub


def environment(folder: Path) -> dict[str, str]:
    """What compose hands over of .env: uncommented lines."""
    if not (folder / ".env").exists():
        return {}
    lines = (folder / ".env").read_text(encoding="utf-8").splitlines()
    pairs = [line.partition("=") for line in lines if re.match(r"[A-Z]", line)]
    return {name: value for name, _, value in pairs if name != "COMPOSE_PROFILES"}


def test_the_section_has_the_steps_that_it_names() -> None:
    said = " ".join(commands())
    for word in (
        "doctor",
        "plan",
        "download",
        "up -d --wait",
        "status",
        "/v1/models",
        "/v1/chat/completions",
        "verify",
    ):
        assert word in said
    assert not re.search(r"docker(?! compose (?:run --rm|exec|up))", said), "a word that nothing here stands in for"


def test_the_page_s_figures_are_those_of_the_checks() -> None:
    from dsv4_pd.doctor.checks.driver import driver_version
    from dsv4_pd.doctor.checks.host import host_memory
    from dsv4_pd.doctor.checks.software import disk_space
    from dsv4_pd.plan.disk.paths import models_dir
    from dsv4_pd.plan.shipped import catalogue

    entry = catalogue.read_all(models_dir())["flash-0731"]
    assert entry.weights_bytes is not None
    assert f"{entry.weights_bytes / 1e9:.1f} GB of weights" in PAGE
    assert f"| NVIDIA driver | {driver_version.DRIVER} or newer |" in PAGE
    servers = (8 * host_memory._PER_RANK + host_memory._BASE) >> 30
    assert f"{servers} GiB for eight ranks" in PAGE
    assert f"| memory | {servers + (host_memory._CACHE >> 30)} GiB;" in PAGE
    assert f"{disk_space._NEED['cache'] >> 30} for compiled kernels" in PAGE
    need = entry.weights_bytes / 1e9 + disk_space._MARGIN / 1e9 + 8.5 + disk_space._NEED["cache"] / 1e9
    found = re.search(r"\| disk \| (\d+) GB free", PAGE)
    assert found and need <= int(found[1]) <= need + 10


def prepared(folder: Path, hub: Hub) -> Appliance:
    """A folder as the release gives it, and an appliance that is not started."""
    for name in (".env.example", "compose.yaml"):
        (folder / name).write_bytes((ROOT / name).read_bytes())
    return Appliance(folder, {
        "DSV4_PROFILE": "demo-cpu", "DSV4_MODEL": MODEL, "HF_ENDPOINT": hub.url, "HF_HOME": str(folder / "hf"),
        "DSV4_SERVED_MODEL_NAME": "dsv4-demo",
    })  # fmt: skip


def run_all(appliance: Appliance, said: list[str]) -> dict[str, str]:
    """Command -> what it printed, one after the other in one shell's variables."""
    api, ops = appliance.ports["DSV4_PORT"], appliance.ports["DSV4_OPS_PORT"]
    outputs: dict[str, str] = {}
    variables = "set -e\n"
    for command in said:
        words = native(command).replace(":8000/", f":{api}/").replace(":8001/", f":{ops}/")
        environ = {**appliance.environ, **environment(appliance.root)}
        if words == "UP":
            serve(appliance, environ, appliance.root)
            continue
        shell = ["bash", "-c", variables + words]
        done = subprocess.run(shell, cwd=appliance.root, env=environ, capture_output=True, text=True, timeout=900)
        warned = command.endswith(" doctor") and done.returncode == 1  # this machine's own warnings
        assert done.returncode == 0 or warned, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        outputs[command] = done.stdout
        if re.match(r"[A-Z]+=", words):
            variables += words + "\n"
    key = (appliance.root / "dsv4-api-key").read_text().strip()
    assert len(key) == 64 and not any(key in text for text in outputs.values()), "the key is shown nowhere"
    assert (appliance.root / "dsv4-api-key").stat().st_mode & 0o777 == 0o640
    return outputs


@pytest.mark.engine
def test_what_precedes_the_start_needs_no_server(hub: Hub, tmp_path: Path) -> None:
    before = [command for command in commands() if not command.endswith(" plan")]
    outputs = run_all(prepared(tmp_path, hub), before[: before.index("docker compose up -d --wait")])
    assert environment(tmp_path)["DSV4_API_KEY_FILE"] == "./dsv4-api-key"
    assert any(" doctor" in command and "model" in text for command, text in outputs.items())
    assert list((tmp_path / "hf").rglob("model.safetensors")), "the model is here before anything is started"


@pytest.mark.pair
@pytest.mark.slow
def test_every_command_of_the_first_start_does_what_the_page_says(hub: Hub, tmp_path: Path) -> None:
    appliance = prepared(tmp_path, hub)
    try:
        outputs = run_all(appliance, commands())
        assert any("Rome" in text for text in outputs.values()), "the request of the page is answered"
        assert appliance.call("/v1/models")[0] == 401, "without the key nobody is served"
    finally:
        if hasattr(appliance, "process"):
            assert appliance.stop() == 0
    assert appliance.leftovers() == []


def serve(appliance: Appliance, environ: dict[str, str], folder: Path) -> None:
    """`up -d --wait`: the image's own command, until its health check says yes."""
    with appliance.log.open("ab") as out:
        appliance.process = subprocess.Popen([sys.executable, "-m", "dsv4_pd", "serve"], env=environ, cwd=folder,
                                             stdout=out, stderr=out, stdin=subprocess.DEVNULL)  # fmt: skip
    deadline = time.monotonic() + START_S
    while subprocess.run([sys.executable, "-m", "dsv4_pd", "health"], env=environ, capture_output=True).returncode:
        assert time.monotonic() < deadline and appliance.process.poll() is None, appliance.log.read_text()[-3000:]
        time.sleep(1.0)
    assert json.loads((folder / "run" / "health.json").read_text())["serving"]
    assert os.environ.get("DSV4_API_KEY") is None
