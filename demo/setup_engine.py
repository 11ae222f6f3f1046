"""Create the virtual environments that the demo runs in: engine, router, smg.

    python3 demo/setup_engine.py [--venvs DIR] [NAME ...]

Everything comes from the hashed locks of docker/. A second call compares stamps and returns at once.
This script needs the standard library only.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCKER = ROOT / "docker"
STAMP = ".dsv4-setup.json"
ENGINE_PYTHONS = ("3.11", "3.12")  # SGLang pins packages (outlines_core 0.1.26) that have no wheel for 3.13
CPU_BYTES_ON_DISK = 1_900_000_000
STOCK_BYTES_ON_DISK = 8_500_000_000


class SetupError(Exception):
    """One line for the person who typed the command."""


@dataclass(frozen=True, slots=True)
class Environment:
    """One venv: the locks it is made of, our own distributions on top, and a command that proves it."""

    name: str
    locks: tuple[str, ...]
    ours: tuple[str, ...]
    check: tuple[str, ...]
    pythons: tuple[str, ...]


ENGINE = Environment(
    name="engine",
    locks=("engine-cpu.lock", "engine-cpu-nodeps.lock"),
    ours=("hooks", "demo/plugin", "gate"),
    check=("-m", "dsv4_cpu_pd.selfcheck"),
    pythons=ENGINE_PYTHONS,
)
ROUTER = Environment("router", ("router.lock",), (), ("-m", "sglang_router.launch_router", "--help"), ())
SMG = Environment("smg", ("smg.lock",), (), ("-m", "smg.launch_router", "--help"), ())
ENVIRONMENTS = {environment.name: environment for environment in (ENGINE, ROUTER, SMG)}
STANDINS = "demo/standins"  # only beside a CPU build of torch, which brings neither triton nor torchvision
CPU_TORCH_LOCK, STOCK_TORCH_LOCK = "engine-cpu-torch.lock", "engine-cpu-cuda.lock"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="engine, router, smg (default: engine router)")
    parser.add_argument("--venvs", type=Path, default=ROOT / ".venvs", help="folder of the environments")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in ENVIRONMENTS]
    if unknown:
        parser.error(f"unknown environment {unknown[0]!r}; there are: {', '.join(ENVIRONMENTS)}")
    try:
        for name in options.names or ["engine", "router"]:
            ensure(ENVIRONMENTS[name], options.venvs)
    except SetupError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 1
    return 0


def ensure(environment: Environment, venvs: Path) -> None:
    """Bring one environment up to date; two calls at once wait for each other."""
    venvs.mkdir(parents=True, exist_ok=True)
    with (venvs / f".{environment.name}.lock").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        venv = venvs / environment.name
        packages, ours = digest_locks(environment), digest_ours(environment)
        stamp = read_stamp(venv)
        if stamp.get("packages") == packages and stamp.get("ours") == ours and interpreter_runs(venv):
            return
        started = time.monotonic()
        if stamp.get("packages") == packages and interpreter_runs(venv):
            cpu_build = bool(stamp["cpu_build"])
        else:
            cpu_build = install_packages(environment, venv)
        write_stamp(venv, packages=packages, cpu_build=cpu_build)
        install_ours(environment, venv, cpu_build=cpu_build)
        prove(environment, venv)
        write_stamp(venv, packages=packages, cpu_build=cpu_build, ours=ours)
        say(f"{environment.name}: ready in {time.monotonic() - started:.0f} s at {venv}")


# stamps


def digest_locks(environment: Environment) -> str:
    locks = (*environment.locks, CPU_TORCH_LOCK, STOCK_TORCH_LOCK) if environment is ENGINE else environment.locks
    return digest([DOCKER / lock for lock in locks])


def digest_ours(environment: Environment) -> str:
    folders = (*environment.ours, STANDINS) if environment is ENGINE else environment.ours
    sources = [path for folder in folders for path in sorted((ROOT / folder).rglob("*"))]
    return digest([path for path in sources if path.suffix in {".py", ".toml", ".json"} and "build" not in path.parts])


def digest(files: list[Path]) -> str:
    total = hashlib.sha256()
    for file in files:
        total.update(f"{file.relative_to(ROOT)}\0".encode() + file.read_bytes())
    return total.hexdigest()


def read_stamp(venv: Path) -> dict[str, object]:
    try:
        stamp = json.loads((venv / STAMP).read_text())
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def write_stamp(venv: Path, **values: object) -> None:
    (venv / STAMP).write_text(json.dumps(values))


def interpreter_runs(venv: Path) -> bool:
    """A venv dies with the Python that it was made from."""
    python = venv / "bin/python"
    return python.exists() and succeeds([str(python), "-c", ""])


# installing


def install_packages(environment: Environment, venv: Path) -> bool:
    """Returns whether torch, where it is part of the environment, is a CPU build."""
    python = choose_python(environment.pythons)
    shutil.rmtree(venv, ignore_errors=True)
    run([python, "-m", "venv", str(venv)])
    pip(venv, "--require-hashes", "-r", str(DOCKER / "engine-cpu-pip.lock"))
    locks, cpu_build = list(environment.locks), False
    if environment is ENGINE:
        cpu_build = announce_torch(venv)
        locks.append(CPU_TORCH_LOCK if cpu_build else STOCK_TORCH_LOCK)
    requirements = [word for lock in locks for word in ("-r", str(DOCKER / lock))]
    pip(venv, "--require-hashes", "--no-deps", "--only-binary", ":all:", *requirements)
    return cpu_build


def install_ours(environment: Environment, venv: Path, *, cpu_build: bool) -> None:
    for folder in (*environment.ours, *([STANDINS] if cpu_build else [])):
        # built from a copy: setuptools leaves build/ and *.egg-info beside what it builds
        source = venv / "src" / folder
        shutil.rmtree(source, ignore_errors=True)
        shutil.copytree(ROOT / folder, source, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
        pip(venv, "--no-deps", "--no-build-isolation", "--force-reinstall", str(source))


def announce_torch(venv: Path) -> bool:
    """Find out which build of torch this machine's pip can get, and say so with the size before it is downloaded."""
    cpu_build = can_get_cpu_torch(venv)
    need = CPU_BYTES_ON_DISK if cpu_build else STOCK_BYTES_ON_DISK
    if cpu_build:
        say(f"engine: taking a CPU build of torch (a wheel of about 0.2 GB); {need / 1e9:.1f} GB on disk in all")
    else:
        say(
            f"engine: pip finds no CPU build of torch, so the stock wheel and its CUDA libraries are taken: "
            f"{stock_download_bytes() / 1e9:.1f} GB to download, {need / 1e9:.1f} GB on disk in all. "
            "An index or folder that has the CPU build can be named with PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS."
        )
    free = shutil.disk_usage(venv).free
    if free < need:
        raise SetupError(
            f"{venv} has {free / 1e9:.1f} GB free, the engine needs {need / 1e9:.1f} GB: free some, or pass --venvs DIR"
        )
    return cpu_build


def can_get_cpu_torch(venv: Path) -> bool:
    """A dry run reads indexes; the only file that it may fetch is the wheel that is installed next."""
    lock = ("--require-hashes", "--no-deps", "--only-binary", ":all:", "-r", str(DOCKER / CPU_TORCH_LOCK))
    return succeeds([str(venv / "bin/python"), "-m", "pip", "install", "--dry-run", "--ignore-installed", *lock])


def stock_download_bytes() -> int:
    lines = (DOCKER / STOCK_TORCH_LOCK).read_text().splitlines()
    return next(int(line.rpartition(" ")[2]) for line in lines if "download-bytes" in line)


def prove(environment: Environment, venv: Path) -> None:
    run([str(venv / "bin/python"), *environment.check])


# Python


def choose_python(wanted: tuple[str, ...]) -> str:
    """This interpreter where it fits, else the first of python3.11, python3.12 on PATH that runs."""
    candidates = [sys.executable, *(found for version in wanted if (found := shutil.which(f"python{version}")))]
    seen = {candidate: python_version(candidate) for candidate in candidates}
    fitting = [candidate for candidate, version in seen.items() if version and (not wanted or version in wanted)]
    if not fitting:
        raise SetupError(
            f"the demo's engine needs Python {' or '.join(wanted)}, found only {python_version(sys.executable)} "
            f"({sys.executable}): install python{wanted[0]} with its venv module, then run this again"
        )
    with_venv = [candidate for candidate in fitting if has_venv(candidate)]
    if not with_venv:
        version = seen[fitting[0]]
        raise SetupError(
            f"{fitting[0]} lacks the venv module: on Debian or Ubuntu, apt-get install python{version}-venv"
        )
    return with_venv[0]


def python_version(python: str) -> str | None:
    program = "import sys; print('%d.%d' % sys.version_info[:2])"
    answer = subprocess.run([python, "-c", program], capture_output=True, text=True)
    return answer.stdout.strip() if answer.returncode == 0 else None


def has_venv(python: str) -> bool:
    return succeeds([python, "-c", "import venv, ensurepip"])


# processes


def pip(venv: Path, *arguments: str) -> None:
    run([str(venv / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments])


def succeeds(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def run(command: list[str]) -> str:
    """Run to the end; what it printed is shown only when it failed."""
    environment = {**os.environ, "PYTHONNOUSERSITE": "1"}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        output = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise SetupError(f"this command failed with status {done.returncode}: {' '.join(command)}\n{output}")
    return done.stdout


def say(line: str) -> None:
    print(f"setup: {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
