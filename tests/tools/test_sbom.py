"""The bill of materials, made of the environments that are here by the program that the image build runs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
APPLIANCE = ROOT / ".venvs/appliance"


def made(*venvs: Path) -> str:
    command = [sys.executable, str(ROOT / "docker/sbom.py"), "97.1.0", *map(str, venvs)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def venvs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same environment under two names, as two that share most of their packages."""
    if not (APPLIANCE / "bin/python").exists():
        pytest.skip(".venvs/appliance is not there; make demo")
    other = tmp_path_factory.mktemp("venvs") / "other"
    other.symlink_to(APPLIANCE)
    return APPLIANCE, other


@pytest.fixture(scope="module")
def text(venvs: tuple[Path, Path]) -> str:
    return made(*venvs)


def group(text: str, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = next(one for one in json.loads(text)["components"] if one["name"] == name)[
        "components"
    ]
    return found


def test_every_locked_distribution_is_in_it_with_its_version_and_licence(text: str) -> None:
    lock = (ROOT / "docker/appliance.lock").read_text()
    wanted = set(re.findall(r"^([\w.-]+)==([^ ;\\]+)", lock, re.MULTILINE))
    listed = {(one["name"].lower().replace("_", "-"), one["version"]) for one in group(text, "appliance")}
    assert len(wanted) > 20 and wanted <= listed
    aiohttp = next(one for one in group(text, "appliance") if one["name"] == "aiohttp")
    assert (
        aiohttp["purl"].startswith("pkg:pypi/aiohttp@") and aiohttp["licenses"][0]["expression"] == "Apache-2.0 AND MIT"
    )


def test_every_package_of_debian_is_in_it(text: str) -> None:
    count = subprocess.run(["dpkg-query", "-W"], capture_output=True, text=True, check=True).stdout.count("\n")
    listed = group(text, "debian")
    assert len(listed) == count and {"bash", "dpkg"} <= {one["name"] for one in listed}
    assert all("+" not in one["purl"].partition("@")[2] for one in listed), "a plus sign in a purl is a blank"


def test_two_runs_say_the_same_and_no_reference_dangles(venvs: tuple[Path, Path], text: str) -> None:
    assert made(*venvs) == text
    document = json.loads(text)
    refs = [one["bom-ref"] for each in document["components"] for one in (each, *each["components"])]
    assert len(refs) == len(set(refs)), "an environment's references are told apart by its name"
    named = {edge["ref"] for edge in document["dependencies"]}
    named |= {ref for edge in document["dependencies"] for ref in edge["dependsOn"]}
    assert named <= {*refs, "dsv4-pd"} and any(ref.startswith("other:") for ref in named)


def test_what_is_not_valid_is_not_written(tmp_path: Path) -> None:
    """The generator's answer stands in for a version of it that changed its form."""
    (tmp_path / "cyclonedx_py.py").write_text(
        'print(\'{"components": [{"bom-ref": "x", "type": "none", "name": "x"}]}\')'
    )
    command = [sys.executable, str(ROOT / "docker/sbom.py"), "97.1.0", str(ROOT / ".venvs/dev")]
    done = subprocess.run(
        command, capture_output=True, text=True, env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin"}
    )
    assert done.returncode == 1 and "sbom: not valid CycloneDX 1.6" in done.stderr and done.stdout == ""


def test_the_image_and_the_tests_run_the_same_generator() -> None:
    pins = [
        re.search(r"^cyclonedx-bom==(\S+)", (ROOT / f"docker/{name}.lock").read_text(), re.MULTILINE)
        for name in ("dev", "sbom")
    ]
    assert pins[0] and pins[1] and pins[0][1] == pins[1][1]
