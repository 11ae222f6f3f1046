"""The kit's lists and steps, without packing one."""

from __future__ import annotations

import fnmatch
import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LISTS = tomllib.loads((HERE / "kit/left-out.toml").read_text())
LOCK = (ROOT / "docker/engine.lock").read_text()
DISTRIBUTIONS = set(re.findall(r"^([a-z0-9][a-z0-9._-]*)==", LOCK, re.MULTILINE))


@pytest.fixture(scope="module")
def pack() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pack", HERE / "kit/pack.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("pattern", [*LISTS["machine"], *LISTS["packages"]])
def test_every_pattern_names_a_distribution_of_the_lock(pattern: str) -> None:
    assert fnmatch.filter(DISTRIBUTIONS, pattern)


def test_what_is_left_out_goes_with_its_hashes(pack: ModuleType) -> None:
    kept = pack.chosen(LOCK, [*LISTS["machine"], *LISTS["packages"]])
    names = re.findall(r"^([a-z0-9][a-z0-9._-]*)==", kept, re.MULTILINE)
    assert {"sglang", "torch", "triton", "nixl-cu13", "zstandard"} <= set(names)
    assert not any(fnmatch.filter(names, pattern) for pattern in LISTS["machine"])
    # Each block begins with its requirement and has hashes of its own.
    blocks = re.split(r"\n(?=[a-z0-9])", kept.strip())
    assert len(blocks) == len(names) and all("--hash=sha256:" in block for block in blocks)


def test_each_card_drops_the_other_s_operators(pack: ModuleType, tmp_path: Path) -> None:
    for card, kept in {"90": "sm90", "120": "sm100"}.items():
        for name in ("sm90", "sm100"):
            (tmp_path / card / "sgl_kernel" / name).mkdir(parents=True)
        pack.remove(tmp_path / card, LISTS["only"][card])
        assert [path.name for path in (tmp_path / card / "sgl_kernel").iterdir()] == [kept]


def test_a_library_that_is_gone_is_a_fault_of_the_list(pack: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"libnccl\.so\.2"):
        pack.matches(tmp_path, LISTS["fatbins"]["paths"])


def test_pieces_are_no_larger_than_asked_and_whole_together(pack: ModuleType, tmp_path: Path) -> None:
    whole = tmp_path / "engine.tar.zst"
    whole.write_bytes(bytes(range(256)) * 10)
    parts = tmp_path / "parts"
    parts.mkdir()
    pack.cut(whole, 1000, parts)
    pieces = sorted(parts.iterdir())
    assert [piece.stat().st_size for piece in pieces] == [1000, 1000, 560]
    assert b"".join(piece.read_bytes() for piece in pieces) == whole.read_bytes()


def test_an_archive_s_times_are_all_one_and_old(pack: ModuleType, tmp_path: Path) -> None:
    """ninja builds again, for minutes, what is younger than the library in the cache that was sent along."""
    (tmp_path / "a.cu").write_text("x")
    packed = subprocess.run(pack.tar(tmp_path), capture_output=True, check=True).stdout
    listed = subprocess.run(
        ["tar", "-tv", "--full-time"], input=packed, capture_output=True, check=True
    ).stdout.decode()
    assert listed.count("2020-01-01") == len(listed.splitlines()) == 2


def test_the_set_up_script_is_a_script() -> None:
    subprocess.run(["bash", "-n", HERE / "kit/setup.sh"], check=True)


def test_the_ring_s_plugin_is_in_no_image() -> None:
    """Forced tokens and planted faults are for the ring alone."""
    for name in ("Dockerfile", "compose.yaml", ".env.example"):
        assert "dsv4-ring" not in (ROOT / name).read_text() and "dsv4_ring" not in (ROOT / name).read_text()
    for profile in (ROOT / "config/profiles").glob("*.toml"):
        assert "dsv4-ring" not in profile.read_text()


def test_what_our_own_plugins_need_is_packed_with_them(pack: ModuleType) -> None:
    files = [ROOT / name / "pyproject.toml" for name in pack.SOURCES["plugins"]]
    packed = [tomllib.loads(file.read_text())["project"] for file in files]
    needed = {need for project in packed for need in project.get("dependencies", []) if need.startswith("dsv4-")}
    assert needed and needed <= {project["name"] for project in packed}
