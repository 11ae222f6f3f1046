"""ResourceLimits, software and services of the host, as readers of one `Machine`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeVar

from dsv4_pd.host import parse
from dsv4_pd.host.facts import ResourceLimits, Software, Unit
from dsv4_pd.host.machine import Machine
from dsv4_pd.host.unit_files import command_ports, unit_command

_Limit = TypeVar("_Limit", int, float)
_CGROUP = "/sys/fs/cgroup"
UNIT_FOLDER = "/etc/systemd/system/multi-user.target.wants"
_LIBRARY_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/local/cuda/compat", "/usr/lib/wsl/lib")
IN_CONTAINER = re.compile(r"(?:^|\0)container=([\w.-]*)")
_DRIVER_LIBRARY = re.compile(r"lib(?:cuda|nvidia-ml)\.so\.\d")


def read_limits(machine: Machine) -> ResourceLimits:
    """Resource limits of this process and of its cgroup."""
    limits = machine.text("/proc/self/limits") or ""
    nofile, nofile_hard = parse.limits(limits, "Max open files")
    memlock, _ = parse.limits(limits, "Max locked memory")
    shm_mounted, shm = parse.shm_mount(machine.text("/proc/mounts") or "")
    cgroup = parse.cgroup_path(machine.text("/proc/self/cgroup") or "")
    v1 = machine.text(f"{_CGROUP}/memory/memory.limit_in_bytes")
    return ResourceLimits(
        nofile=nofile,
        nofile_hard=nofile_hard,
        memlock_bytes=memlock,
        shm_bytes=shm,
        shm_mounted=shm_mounted,
        memory_limit_bytes=_least(parse.memory_max(text) for text in (*_above(machine, cgroup, "memory.max"), v1)),
        cpu_quota=_least(parse.cpu_max(text) for text in _above(machine, cgroup, "cpu.max")),
        hugepages=parse.number(machine.text("/proc/sys/vm/nr_hugepages")),
    )


def _above(machine: Machine, cgroup: str, name: str) -> list[str | None]:
    """A limit's file in our cgroup and in each one above it: the smallest of them counts."""
    parts = cgroup.split("/")
    return [machine.text(f"{_CGROUP}{'/'.join(parts[:depth])}/{name}") for depth in range(len(parts), 0, -1)]


def _least(limits: Iterable[_Limit | None]) -> _Limit | None:
    return min((limit for limit in limits if limit is not None), default=None)


def read_software(machine: Machine) -> Software:
    """Kernel, container engine and NVIDIA toolkit, as far as they can be seen from here."""
    status = machine.text("/var/lib/dpkg/status") or ""
    daemon = machine.text("/etc/docker/daemon.json") or ""
    devices = tuple(name for name in machine.names("/dev") if name.startswith("nvidia"))
    return Software(
        kernel=(machine.text("/proc/sys/kernel/osrelease") or "").strip() or None,
        container=_container(machine),
        docker=_package(status, r"docker-ce|docker\.io"),
        container_toolkit=_package(status, "nvidia-container-toolkit"),
        toolkit_in_docker='"nvidia"' in daemon or bool(machine.names("/etc/cdi") or machine.names("/var/run/cdi")),
        nvidia_devices=devices,
        driver_libraries=tuple(
            f"{folder}/{name}"
            for folder in _LIBRARY_FOLDERS
            for name in machine.names(folder)
            if _DRIVER_LIBRARY.fullmatch(name)
        ),
        selinux=parse.selinux(machine.text("/sys/fs/selinux/enforce"), machine.text("/proc/self/attr/current")),
        user_namespace=parse.user_namespace(machine.text("/proc/self/uid_map") or ""),
    )


def _container(machine: Machine) -> str | None:
    """Which container engine, by the marks that each leaves. A tmpfs over /run hides Podman's, and containerd leaves
    none: the image itself says `container=oci` to its first process, as systemd has it (CONTAINER_INTERFACE).
    """
    if machine.text("/.dockerenv") is not None:
        return "docker"
    if machine.text("/run/.containerenv") is not None:
        return "podman"
    said = IN_CONTAINER.search(machine.text("/proc/1/environ") or "")
    return None if said is None else "container" if said[1] in ("", "oci") else said[1]


def _package(status: str, name: str) -> str | None:
    """Version of an installed Debian package.

    >>> _package("Package: docker.io\\nStatus: install ok installed\\nVersion: 26.1.5\\n\\n", "docker.io")
    '26.1.5'
    """
    for block in re.finditer(rf"^Package: (?:{name})\n(?:.+\n?)*", status, re.MULTILINE):
        version = re.search(r"^Version: (\S+)", block[0], re.MULTILINE)
        if version and "ok installed" in block[0]:
            return version[1]
    return None


def read_units(machine: Machine) -> tuple[Unit, ...]:
    """Enabled systemd units that start a model server: they would take our GPUs and ports at the next boot."""
    found = []
    for name in machine.names(UNIT_FOLDER):
        command = unit_command(machine.text(f"{UNIT_FOLDER}/{name}") or "")
        if command:
            found.append(Unit(name, command, command_ports(command)))
    return tuple(found)


def clock_skew(machine: Machine) -> float | None:
    """Seconds that the system clock is ahead of the hardware clock."""
    seconds = parse.number(machine.text("/sys/class/rtc/rtc0/since_epoch"))
    return None if seconds is None else machine.clock() - seconds
