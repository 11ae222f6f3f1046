"""Wheels of our own distributions, built from a commit's files with its time: two builds are byte for byte alike."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

FOLDERS = ("entrypoint", "hooks", "gate", "kernels", "demo/plugin")


def hashes(root: Path, commit: str) -> dict[str, str]:
    """File name -> SHA-256, by the builders of the development environment's lock.

    Raises:
        subprocess.CalledProcessError: a build fails; its output is in the error.
    """
    with tempfile.TemporaryDirectory(prefix="dsv4-pd-wheels-") as folder:
        source, out = Path(folder, "source"), Path(folder, "out")
        packed = subprocess.run(["git", "archive", commit, *FOLDERS], cwd=root, capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(source, filter="data")
        stamp = subprocess.run(
            ["git", "log", "-1", "--format=%ct", commit], cwd=root, capture_output=True, text=True, check=True
        )
        environ = {**os.environ, "SOURCE_DATE_EPOCH": stamp.stdout.strip()}
        for name in FOLDERS:
            build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out)]
            subprocess.run([*build, str(source / name)], env=environ, capture_output=True, text=True, check=True)
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(out.glob("*.whl"))}
