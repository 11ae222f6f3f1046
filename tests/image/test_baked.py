"""The kernels in the image: a start on sm_120 cards finds all that the build could compile, and one that is gone shows.

No card, no network, no cache but the image's. The plan of a recorded host with eight such cards says where a server
looks and how many heads a rank has; the engine's own calls ask.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from support.containers import ROOT, Runner, wait_for
from support.docker_sdk import DockerClient, Image

pytestmark = pytest.mark.docker
HOST = "/hosts/eight-two-sockets"
HEADS = 64
ALONE: dict[str, Any] = {"network_mode": "none", "volumes": [f"{ROOT}/tests/hosts:/hosts:ro"]}
# As `serve` does it: the plan, then the cache folder; then what a test takes away; then a server's environment.
SIMULATE = """
import json, os, re, shutil, subprocess, sys
from pathlib import Path
from dsv4_pd.plan.disk.paths import image_key, share_dir
from dsv4_pd.run.cache import boot
host, systems, gone = sys.argv[1], sys.argv[2].split(","), sys.argv[3:]
plan = json.loads(subprocess.run(["dsv4-pd", "plan", "--json", "--replay", host], stdout=-1, check=True).stdout)
servers = [one for one in plan["programs"] if "SGLANG_CACHE_DIR" in one["env"]]
env = servers[0]["env"]
assert all(one["env"]["SGLANG_CACHE_DIR"] == env["SGLANG_CACHE_DIR"] for one in servers)
ranks = {int(found) for found in re.findall(r"(?:tp-size|tensor-parallel-size): (\\d+)", json.dumps(plan))}
cache = Path(env["SGLANG_CACHE_DIR"])
print("seeded", *boot.prepare(cache, share_dir() / "caches", image_key()).lines, "tensor parallelism", sorted(ranks))
for pattern in gone:
    path = sorted(cache.glob(pattern))[0]
    print("taken away", path)
    shutil.rmtree(path if path.is_dir() else path.parent)
driver = Path("/tmp/driver")
driver.mkdir()
(driver / "libcuda.so.1").symlink_to(os.environ["CUDA_HOME"] + "/lib/stubs/libcuda.so")
assert ranks
heads = [str(HEADS // rank) for rank in sorted(ranks)]
python = "/opt/dsv4-pd/venvs/engine/bin/python"
os.execve(python, [python, "-m", "dsv4_bake.simulate", "--heads", *heads,
          "--systems", *systems], {**os.environ, **env, "LD_LIBRARY_PATH": str(driver)})
""".replace("HEADS", str(HEADS))


@pytest.fixture(scope="module")
def systems(image: Image) -> tuple[str, ...]:
    """What this image was built to bring: BAKE=own leaves the engine's own out."""
    baked = image.attrs["Config"]["Labels"]["dsv4-pd.baked"]
    return ("tvm-ffi", "tilelang", "triton", "flashinfer") if baked != "own" else ("triton",)


def simulate(runner: Runner, systems: tuple[str, ...], *gone: str) -> tuple[int, str]:
    python = "/opt/dsv4-pd/venvs/appliance/bin/python"
    return runner.run(
        python, "-c", SIMULATE, HOST, ",".join(systems), *gone, timeout_s=600, **ALONE
    )  # 25 s on two idle cores


def test_a_start_finds_every_kernel_in_the_image(runner: Runner, systems: tuple[str, ...]) -> None:
    code, output = simulate(runner, systems)
    assert code == 0, output
    assert "0 of them compiled: none" in output and "not found" not in output
    found = {name: int(count) for name, count in re.findall(r"^(\S+): (\d+) found, 0 compiled", output, re.MULTILINE)}
    assert set(found) == set(systems) and found["triton"] > 20, output
    if "tvm-ffi" in systems:
        assert found["tvm-ffi"] >= 18 and found["tilelang"] >= 20, output


@pytest.mark.parametrize(
    ("system", "gone", "named"),
    [
        ("triton", "triton/*/__grp__mhc_finish_kernel.json", "mhc_finish_kernel"),
        ("tvm-ffi", "jit/*/sgl_kernel_jit_dpsk_v4_topk_v1_true", "dpsk_v4_topk_v1_true"),
        ("tilelang", "tilelang/*/*/kernels/*", ""),
    ],
)
def test_a_kernel_that_is_not_there_shows_by_name(
    runner: Runner, systems: tuple[str, ...], system: str, gone: str, named: str
) -> None:
    if system not in systems:
        pytest.skip("built with BAKE=own: the engine's own kernels are not in it")
    code, output = simulate(runner, (system,), gone)
    assert code == 1, output
    assert f"{system}: not found: {named}" in output and f"compiled: {system}" in output


def test_the_cache_command_shows_exports_and_imports_in_the_container(runner: Runner, systems: tuple[str, ...]) -> None:
    """On one volume after another: what the image brings travels whole."""
    seed = (
        "from pathlib import Path; from dsv4_pd.plan.disk.paths import image_key, share_dir; import os;"
        "from dsv4_pd.run.cache import boot;"
        "boot.prepare(Path(os.environ['DSV4_CACHE_DIR']), share_dir() / 'caches', image_key())"
    )
    script = (
        f'export DSV4_CACHE_DIR=/tmp/one; /opt/dsv4-pd/venvs/appliance/bin/python -c "{seed}" &&'
        "dsv4-pd cache status --json > /tmp/before && dsv4-pd cache export /tmp/file.tar.gz &&"
        "export DSV4_CACHE_DIR=/tmp/two && dsv4-pd cache import /tmp/file.tar.gz &&"
        "dsv4-pd cache status --json > /tmp/after && cat /tmp/before && echo ==== && cat /tmp/after"
    )
    code, output = runner.run("sh", "-c", script, network_mode="none")
    assert code == 0, output
    said, after = output.split("====")
    before = json.loads(said[said.index("\n{") :])
    names = {(row["system"], row["kernel"], row["entries"]) for row in before["kernels"]}
    assert names == {(row["system"], row["kernel"], row["entries"]) for row in json.loads(after)["kernels"]}
    assert all(set(row["origins"]) == {"image"} for row in before["kernels"])
    assert {row["system"] for row in before["kernels"]} >= set(systems) - {"flashinfer"}


# What `serve` does before it starts a server; it holds the folder until it is ended.
PREPARE = """
import sys, time
from pathlib import Path
from dsv4_pd.plan.disk.paths import image_key, share_dir
from dsv4_pd.run.cache import boot
done = boot.prepare(Path("/var/cache/dsv4-pd/one"), share_dir() / "caches", image_key())
print("prepared", *done.lines, sep="\\n", flush=True)
time.sleep(float(sys.argv[1]))
"""


def test_two_containers_on_one_volume_and_a_damaged_kernel(engine: DockerClient, runner: Runner) -> None:
    """The second one leaves the first one's folder whole, and what was cut off comes from the image again."""
    python = "/opt/dsv4-pd/venvs/appliance/bin/python"
    volume = engine.volumes.create()
    options: dict[str, Any] = {
        "network_mode": "none",
        "read_only": True,
        "volumes": {volume.name: {"bind": "/var/cache/dsv4-pd", "mode": "rw"}},
    }
    try:
        first = runner.start(python, "-c", PREPARE, "600", **options)
        wait_for("the first one is through", lambda: b"prepared" in first.logs(), 60)
        assert "taken from the image" in first.logs().decode()
        damage = "cd /var/cache/dsv4-pd/one/triton && f=$(ls */*.cubin | head -n 1) && truncate -s 100 $f && echo $f"
        code, cut = runner.run("sh", "-c", damage, **options)
        assert code == 0, cut
        code, said = runner.run(python, "-c", PREPARE, "0", **options)
        assert code == 0, said
        lines = said.splitlines()
        assert [line for line in lines if cut.split("/")[0] in line and "100 bytes" in line], said
        assert "kernel cache: 1 kernels taken from the image" in lines
        code, again = runner.run(python, "-c", PREPARE, "0", **options)
        assert (code, again.split()) == (0, ["prepared"]), again
    finally:
        for container in runner.started:
            container.remove(force=True, v=True)
        runner.started.clear()
        volume.remove(force=True)
