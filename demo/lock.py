"""Write the hashed locks of docker/ that pip-compile cannot: packages that are installed without their dependencies.

    python demo/lock.py        # needs pip >= 23.2 beside this interpreter

engine-cpu-nodeps.lock   engine-cpu-nodeps.in, each name alone
engine-cpu-torch.lock    the CPU build of torch that this machine's pip finds
engine-cpu-cuda.lock     where no CPU build is to be had: the stock torch, its CUDA libraries, triton and torchvision
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path

DOCKER = Path(__file__).resolve().parent.parent / "docker"
TORCH = "torch==2.13.0"
TORCHVISION = "torchvision==0.28.0"
PYTHONS = ("3.11", "3.12")
# pip does not widen an explicit platform, so every glibc that a wheel may name is spelled out.
PLATFORMS = (*(f"manylinux_2_{minor}_x86_64" for minor in range(34, 4, -1)), "manylinux2014_x86_64")


@dataclass(frozen=True, slots=True)
class Wheel:
    name: str
    version: str
    url: str
    sha256: str


def resolve(arguments: list[str], python: str, *, stock: bool) -> list[Wheel]:
    """What pip would install for one Python; `stock` leaves out this machine's extra places to look in."""
    environment = dict(os.environ)
    if stock:
        environment.pop("PIP_FIND_LINKS", None)
        environment["PIP_CONFIG_FILE"] = os.devnull
    platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        command += ["--only-binary", ":all:", "--target", "unused", "--python-version", python, *platforms]
        subprocess.run([*command, "--report", report.name, *arguments], check=True, env=environment)
        return [_wheel(entry) for entry in json.load(report)["install"]]


def _wheel(entry: dict[str, dict[str, str]]) -> Wheel:
    download = json.loads(json.dumps(entry["download_info"]))
    digest: str = download["archive_info"]["hashes"]["sha256"]
    name = re.sub(r"[-_.]+", "-", entry["metadata"]["name"]).lower()
    return Wheel(name, entry["metadata"]["version"], download["url"], digest)


def render(wheels: list[Wheel], head: str) -> str:
    """One requirement per name, with the hash of the wheel for each Python."""
    hashes: dict[str, list[str]] = {}
    for wheel in wheels:
        kept = hashes.setdefault(f"{wheel.name}=={wheel.version}", [])
        if wheel.sha256 not in kept:
            kept.append(wheel.sha256)
    blocks = (
        " \\\n    ".join([name, *(f"--hash=sha256:{digest}" for digest in digests)])
        for name, digests in sorted(hashes.items())
    )
    return head + "\n".join(blocks) + "\n"


def size_of(wheel: Wheel) -> int:
    request = urllib.request.Request(wheel.url, method="HEAD")
    with urllib.request.urlopen(request) as answer:
        return int(answer.headers["Content-Length"])


def locked_names(lock: Path) -> set[str]:
    return set(re.findall(r"^([a-z0-9][a-z0-9.-]*)==", lock.read_text(), flags=re.MULTILINE))


def main() -> None:
    write_nodeps()
    write_cpu_torch()
    write_stock_torch()


def write_nodeps() -> None:
    requirements = ["--no-deps", "-r", str(DOCKER / "engine-cpu-nodeps.in")]
    wheels = [wheel for python in PYTHONS for wheel in resolve(requirements, python, stock=True)]
    (DOCKER / "engine-cpu-nodeps.lock").write_text(render(wheels, "# Install with --no-deps.\n"))


def write_cpu_torch() -> None:
    """pip prefers a wheel whose index gives its hash, so the CPU build has a lock of its own that names it exactly."""
    wheels = [wheel for wheel in resolve(["--no-deps", TORCH], "3.11", stock=False) if "+cpu" in wheel.version]
    if not wheels:
        sys.exit(
            f"pip finds no CPU build of {TORCH}: name a place that has one with PIP_FIND_LINKS, then run this again"
        )
    (DOCKER / "engine-cpu-torch.lock").write_text(render(wheels, "# Install with --no-deps.\n"))


def write_stock_torch() -> None:
    common = locked_names(DOCKER / "engine-cpu.lock")
    stock = {python: resolve([TORCH, TORCHVISION], python, stock=True) for python in PYTHONS}
    extra = {python: [wheel for wheel in wheels if wheel.name not in common] for python, wheels in stock.items()}
    size = sum(size_of(wheel) for wheel in extra[PYTHONS[0]])
    head = f"# Install with --no-deps.\n# download-bytes: {size}\n"
    (DOCKER / "engine-cpu-cuda.lock").write_text(render([w for wheels in extra.values() for w in wheels], head))


if __name__ == "__main__":
    main()
