"""The image itself: contents, configuration, size, front door."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from pathlib import Path

import pytest
from release import licences
from support.containers import HARDENED, ROOT, Runner, sh
from support.docker_sdk import DockerClient, Image, docker

pytestmark = pytest.mark.docker
BUDGET_BYTES = 7_400_000_000
RE_PULL_BYTES = 5_000_000
# What made the layer -> MB. Those that are not named here hold less than one.
LAYERS = {
    "apt-get install": 340,
    "cuda-layer.awk": 3_100,
    "prune.py engine": 2_650,
    "sglang_router.launch_router": 270,
    "COPY /caches/jit": 60,
    "COPY /caches/tilelang": 60,
    "flashinfer/data/aot": 60,
    "dsv4_bake.simulate": 40,
    "/src/appliance.lock": 95,
    "COPY demo/model": 5,
    "/src/sbom.py": 5,
}


def test_size_within_budget(image: Image) -> None:
    assert image.attrs["Size"] <= BUDGET_BYTES


def test_each_layer_keeps_its_budget(engine: DockerClient, image: Image) -> None:
    """The base's own layers come before the first of ours, and are nobody's here."""
    steps = list(reversed(engine.api.history(image.id)))
    first = next(number for number, step in enumerate(steps) if "apt-get install" in step["CreatedBy"])
    over = {}
    for step in steps[first:]:
        limit = next((size for part, size in LAYERS.items() if part in step["CreatedBy"]), 1)
        if step["Size"] > limit * 1_000_000:
            over[step["CreatedBy"][-80:]] = (step["Size"], limit)
    assert over == {}


def test_config_tells_what_a_host_needs(image: Image) -> None:
    config = image.attrs["Config"]
    assert config["StopSignal"] == "SIGTERM"
    assert re.fullmatch(r"\d+:0", config["User"]), "a numeric user, or runAsNonRoot can't be checked"
    assert set(config["ExposedPorts"]) == {"8000/tcp", "8001/tcp"}
    assert not config.get("Volumes"), "an anonymous volume for weights would be lost"
    second = 1_000_000_000
    check = config["Healthcheck"]
    assert (check["StartPeriod"], check["StartInterval"], check["Interval"], check["Timeout"], check["Retries"]) == (
        3600 * second, 2 * second, 10 * second, 5 * second, 3)  # fmt: skip
    labels = config["Labels"]
    for name in ("title", "version", "revision", "created", "licenses", "base.name"):
        assert labels[f"org.opencontainers.image.{name}"], name
    assert labels["dsv4-pd.cache-schema"]
    assert labels["dsv4-pd.engine"] == "sglang " + locked("engine", "sglang")
    assert labels["dsv4-pd.router"] == "sglang-router " + locked("router", "sglang-router")


def locked(lock: str, name: str) -> str:
    found = re.search(rf"^{name}==(\S+)", (ROOT / f"docker/{lock}.lock").read_text(), re.MULTILINE)
    assert found
    return found[1]


def test_config_holds_no_secret_and_no_index(engine: DockerClient, image: Image) -> None:
    """What the build was handed (CA bundle, package index) left no trace in configuration or history."""
    text = json.dumps([image.attrs["Config"], [step["CreatedBy"] for step in engine.api.history(image.id)]])
    inputs = ROOT / "build/image-inputs/index"
    handed_in = re.findall(r"https?://[^'\s]+", inputs.read_text() if inputs.exists() else "")
    for word in ("UV_DEFAULT_INDEX", "PIP_INDEX_URL", "BEGIN CERTIFICATE", "API_KEY=", "TOKEN=", *handed_in):
        assert word not in text


def test_layers_hold_no_build_input(runner: Runner) -> None:
    code, found = runner.run("sh", "-c", "ls -A /run/secrets /tools /src /tmp 2>/dev/null; ls /etc/pip.conf 2>&1")
    assert code == 2, found
    assert found.strip().splitlines()[-1] == "ls: cannot access '/etc/pip.conf': No such file or directory"
    assert not re.search(r"^(ca|index|.*\.whl)$", found, re.MULTILINE)


def test_bill_of_materials(runner: Runner) -> None:
    code, text = runner.run("cat", "/opt/dsv4-pd/sbom.cdx.json")
    assert code == 0
    groups = {one["name"]: one["components"] for one in json.loads(text)["components"]}
    packages = {(name, one["name"], one["version"]) for name, listed in groups.items() for one in listed}
    assert ("engine", "sglang", locked("engine", "sglang")) in packages
    assert ("appliance", "aiohttp", locked("appliance", "aiohttp")) in packages
    assert "tini" in {name for group, name, _ in packages if group == "debian"}
    shipped = licences.parse((ROOT / licences.FILE).read_text()).shipped
    ours = {"dsv4-pd", "dsv4-hooks", "dsv4-gate", "dsv4-kernels", "dsv4-bake"}
    python = {licences.normal(name) for group, name, _ in packages if group != "debian"}
    assert python - ours <= set(shipped), "each has a licence in the list"


def test_debian_s_copyright_files_come_along(runner: Runner) -> None:
    """Their licences ask for it, and a slim base's rules would leave them out."""
    script = (
        "for name in $(dpkg-query -W -f '${Package} '); do [ -e /usr/share/doc/$name/copyright ] || echo $name; done"
    )
    code, missing = runner.run("sh", "-c", script)
    assert (code, missing) == (0, "")


def test_compilers_for_run_time_kernels(runner: Runner) -> None:
    """As any user, on a read-only root: what a first request on the GPU machine would compile with."""
    code, output = runner.run(
        "/opt/dsv4-pd/venvs/engine/bin/python", "/src/engine.py", user="12345:0", read_only=True,
        volumes={str(ROOT / "docker/check"): {"bind": "/src", "mode": "ro"}}, tmpfs={"/tmp": "exec"}, cap_drop=["ALL"],
    )  # fmt: skip
    assert code == 0, output
    assert output.count("check ") == 6


def test_our_kernels_come_compiled(runner: Runner) -> None:
    """What `serve` copies into the cache serves every launch of a TP4 or TP2 server, for another user too."""
    seed = (
        "from pathlib import Path; from dsv4_pd.plan.disk import paths; from dsv4_pd.run.cache.seed import seed;"
        "print('seeded', seed(paths.share_dir() / 'caches', Path('/tmp/cache')))"
    )
    script = (
        f'/opt/dsv4-pd/venvs/appliance/bin/python -c "{seed}" && '
        "/opt/dsv4-pd/venvs/engine/bin/python -m dsv4_kernels.aot.warm /tmp/cache/triton --heads 16 32"
    )
    code, output = runner.run("sh", "-c", script, user="12345:0")
    assert code == 0, output
    seeded = re.search(r"seeded (\d+)", output)
    assert seeded and int(seeded[1]) > 20, output
    assert ": 0 kernels compiled" in output


def test_what_is_left_out_is_refused_by_name(runner: Runner) -> None:
    modules = [entry["module"] for entry in tomllib.loads((ROOT / "docker/steps/left-out.toml").read_text())["left_out"]
               if "module" in entry]  # fmt: skip
    assert modules
    for module in modules:
        path = "/opt/dsv4-pd/venvs/engine/lib/python3.11/site-packages/" + module.replace(".", "/") + ".py"
        code, output = runner.run("/opt/dsv4-pd/venvs/engine/bin/python", path)
        assert code == 1
        assert f"{module} is left out of this image" in output
        assert "LEFT_OUT=nothing" in output


def test_an_edit_of_the_control_plane_pulls_megabytes(image: Image, image_name: str, scratch: Path) -> None:
    """Only layers above the edited folder are new."""
    context = scratch / "context"
    names = sh(
        "git",
        "ls-files",
        "Dockerfile",
        ".dockerignore",
        "docker",
        "entrypoint",
        "hooks",
        "kernels",
        "gate",
        "demo",
        "config",
        "LICENSE",
    )
    for name in names.splitlines():
        (context / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, context / name)
    with (context / "entrypoint/dsv4_pd/__init__.py").open("a") as source:
        source.write("\n# an edit\n")
    edited = f"{image_name}-edited"
    secrets = [f"--secret=id={name},src={ROOT}/build/image-inputs/{name}" for name in ("ca", "index")]
    baked = image.attrs["Config"]["Labels"]["dsv4-pd.baked"]
    sh("docker", "build", "-q", "-t", edited, f"--build-arg=BAKE={baked}", *secrets, str(context))
    client = docker.from_env()
    try:
        fresh = client.images.get(edited)
        old = set(image.attrs["RootFS"]["Layers"])
        new_layers = [layer for layer in fresh.attrs["RootFS"]["Layers"] if layer not in old]
        sizes = [step["Size"] for step in client.api.history(fresh.id) if step["Size"]]
        assert 0 < len(new_layers) < 4
        assert sum(sizes[: len(new_layers)]) < RE_PULL_BYTES
    finally:
        client.images.remove(edited)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["version"], 0, "sglang"),
        (["--help"], 0, "Usage: dsv4-pd"),
        (["sh", "-c", "echo executed"], 0, "executed"),
        (["staus"], 2, "did you mean 'status'?"),
        (["health"], 1, "not started"),
    ],
)
def test_front_door(runner: Runner, words: list[str], code: int, said: str) -> None:
    found, output = runner.run(*words, **HARDENED)
    assert (found, said in output) == (code, True), output


def test_no_argument_serves_and_no_gpu_is_named(runner: Runner) -> None:
    code, output = runner.run(**HARDENED)
    assert code == 70, output
    assert "--gpus all" in output


def test_bad_settings_end_with_2_and_name_them(runner: Runner) -> None:
    environment = {"DSV4_PROTO": "x", "DSV4_CONTEXT_LENGTH": "many"}
    code, output = runner.run("demo", environment=environment, **HARDENED)
    assert code == 2, output
    assert "DSV4_PROTO" in output and "DSV4_CONTEXT_LENGTH" in output


def test_compose_file_of_another_generation_is_refused(runner: Runner) -> None:
    code, output = runner.run("demo", environment={"DSV4_COMPOSE_VERSION": "0"}, **HARDENED)
    assert code == 2
    wanted = (ROOT / "docker/compose-version").read_text(encoding="utf-8").strip()
    assert f"compose.yaml: found version 0, expected {wanted}" in output


def test_memory_binding_needs_sys_nice(runner: Runner) -> None:
    """Why compose.yaml asks for that capability, and what stays without it."""
    assert runner.run("numactl", "--membind=0", "true", cap_drop=["ALL"])[0] != 0
    assert runner.run("numactl", "--cpunodebind=0", "true", cap_drop=["ALL"])[0] == 0
    assert runner.run("numactl", "--membind=0", "true", cap_drop=["ALL"], cap_add=["SYS_NICE"])[0] == 0
