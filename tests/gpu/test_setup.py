"""The kit's set-up script on a kit of a few files: plain archives, and an interpreter that says it is 3.12."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

KIT = Path(__file__).parent / "kit"
# Does what the script asks of a Python 3.12, with the one that runs the tests; knows no torch.
PYTHON = """#!/bin/sh
case "$*" in
*version_info*) exit {version} ;;
*find_spec*) echo "" ;;
"-m venv"*) mkdir -p "$4/bin" "$4/lib/python3.12/site-packages" && ln -s {python} "$4/bin/python" ;;
*) exec {python} "$@" ;;
esac
"""
COPY = """
class ZstdDecompressor:
    def __init__(self, max_window_size): pass
    def copy_stream(self, source, target, **_): target.write(source.read())
"""


def pieces(parts: Path, name: str, files: dict[str, str]) -> None:
    """An archive in two pieces."""
    tree = parts.parent / f"tree-{name}"
    for path, text in files.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)
    whole = parts.parent / f"{name}.tar"
    with tarfile.open(whole, "w") as tar:
        for child in tree.iterdir():
            tar.add(child, child.name)
    data = whole.read_bytes()
    for number, piece in enumerate((data[:1000], data[1000:])):
        (parts / f"{name}.tar.zst.{number:03d}").write_bytes(piece)


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    folder = tmp_path / "parts"
    folder.mkdir()
    for name in ("setup.sh", "unpack.py"):
        shutil.copy(KIT / name, folder)
    (folder / "zstandard.py").write_text(COPY)
    pieces(folder, "app", {"plugins/ours/__init__.py": "", "ring/gpu/__init__.py": "",
                           "ring/gpu/__main__.py": "print('a machine')"})  # fmt: skip
    pieces(folder, "engine", {"sglang/__init__.py": "x = 1\n"})
    index = '{"child_paths": {"k.cubin": "/elsewhere/cB/triton/HASH/k.cubin"}}'
    pieces(folder, "jit-cache", {"cB/triton/HASH/__grp__k.json": index, "cB/.cache/norm.so": "so"})
    return folder


def run(parts: Path, tmp_path: Path, version: int = 0) -> subprocess.CompletedProcess[str]:
    python = tmp_path / "python3.12"
    python.write_text(PYTHON.format(version=version, python=sys.executable))
    python.chmod(0o755)
    environ = {"PATH": "/usr/bin:/bin", "PYTHON": str(python)}
    command = ["bash", str(parts / "setup.sh"), str(tmp_path / "root")]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)


def test_everything_lies_where_the_ring_looks_for_it(parts: Path, tmp_path: Path) -> None:
    done = run(parts, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip().endswith("a machine")
    root = tmp_path / "root"
    site = root / "venvs/engine/lib/python3.12/site-packages"
    assert (site / "sglang/__init__.py").read_text() == "x = 1\n" and (site / "ours/__init__.py").exists()
    assert {path.name for path in (root / "venvs").iterdir()} == {"engine", "router", "smg", "appliance"}
    said = (root / "env.sh").read_text()
    assert f"RING_CACHE={root}/cache" in said
    assert "NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1" in said


def test_a_cache_s_index_names_files_where_they_now_lie(parts: Path, tmp_path: Path) -> None:
    run(parts, tmp_path)
    cache = tmp_path / "root/cache"
    assert (cache / ".cache/norm.so").exists()
    assert f'"{cache}/triton/HASH/k.cubin"' in (cache / "triton/HASH/__grp__k.json").read_text()


def test_another_python_is_refused_before_anything_is_written(parts: Path, tmp_path: Path) -> None:
    done = run(parts, tmp_path, version=1)
    assert done.returncode == 2 and "expected Python 3.12" in done.stderr
    assert not (tmp_path / "root").exists()
