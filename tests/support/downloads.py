"""`dsv4-pd download` as a process of its own, with the stub Hub."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support.hub import COMMIT, Hub

MODEL = "org/tiny"


def environ(hub: Hub, home: Path, **env: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"], "HOME": str(home), "HF_HOME": str(home / "hf"), "HF_ENDPOINT": hub.url,
        "HF_HUB_DOWNLOAD_TIMEOUT": "2", "DSV4_MODEL": MODEL, "DSV4_STATE_DIR": str(home / "state"),
        "DSV4_DOWNLOAD_STALL_TIMEOUT": "60", **env,
    }  # fmt: skip


def start(hub: Hub, home: Path, *words: str, **env: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "dsv4_pd", "download", *words]
    return subprocess.Popen(command, env=environ(hub, home, **env), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True)  # fmt: skip


def run(hub: Hub, home: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    process = start(hub, home, *words, **env)
    out, err = process.communicate(timeout=120)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def base(home: Path) -> Path:
    return home / "hf" / "hub" / "models--org--tiny"


def whole(hub: Hub, home: Path) -> bool:
    """Every file but the unneeded one is there, byte for byte."""
    snapshot = base(home) / "snapshots" / COMMIT
    names = {str(path.relative_to(snapshot)) for path in snapshot.rglob("*") if path.is_file()}
    wanted = {name: data for name, data in hub.files.items() if name != "README.md"}
    return names == set(wanted) and all((snapshot / name).read_bytes() == data for name, data in wanted.items())


def storage_bytes(hub: Hub) -> int:
    return sum(len(data) for name, data in hub.files.items() if hub.is_large(name))
