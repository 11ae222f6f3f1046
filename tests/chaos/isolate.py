"""A network and a /dev/shm of their own, so that packet filters and full disks touch nothing else on the machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

_MARK = "CHAOS_ISOLATED"
SHM_BYTES = 1 << 30


def isolated() -> bool:
    """Whether this process has a network namespace and a /dev/shm of its own."""
    return bool(os.environ.get(_MARK))


def enter() -> None:
    """Run this program again in namespaces of its own; where that is refused, go on and say what is left out."""
    if isolated():
        _furnish()
        return
    if os.geteuid() != 0 or not shutil.which("unshare"):
        print("no namespaces of its own (needs root and unshare): network and /dev/shm faults are left out", flush=True)
        return
    os.environ[_MARK] = "1"
    command = ["unshare", "--net", "--mount", "--propagation", "private", sys.executable, "-m", "chaos", *sys.argv[1:]]
    os.execvp(command[0], command)


def _furnish() -> None:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SHM_BYTES}", "chaos-shm", "/dev/shm"], check=True)
