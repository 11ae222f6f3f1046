"""Parsers of /proc and /sys files: functions of text, each with a real sample.

None of them raises for any text: what can't be read is None, or nothing. Where a file may hold several of what is asked
for, the parser says which one counts.
"""

from __future__ import annotations

import re

_HIGHEST_NUMBER = 65535  # CPUs and nodes; a kernel has at most 8192
_ADDRESS = re.compile(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.([0-7]))?")


def number(text: str | None) -> int | None:
    """A whole number of a kernel file; None for anything else, however long.

    >>> number(" 12\\n"), number("-1"), number("9" * 5000), number("\u0663")
    (12, -1, None, None)
    """
    word = (text or "").strip()
    return int(word) if re.fullmatch(r"-?[0-9]{1,19}", word) else None


def cpu_list(text: str) -> frozenset[int]:
    """Numbers of a kernel list.

    >>> sorted(cpu_list("0-2,8"))
    [0, 1, 2, 8]
    """
    found: set[int] = set()
    for part in filter(None, (piece.strip() for piece in text.strip().split(","))):
        first, _, last = part.partition("-")
        low, high = number(first), number(last or first)
        if low is not None and high is not None and low >= 0 and high <= _HIGHEST_NUMBER:
            found.update(range(low, high + 1))
    return frozenset(found)


def format_cpu_list(cpus: frozenset[int]) -> str:
    """The kernel's spelling of a set of CPUs.

    >>> format_cpu_list(frozenset({0, 1, 2, 8}))
    '0-2,8'
    """
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def meminfo(text: str, key: str) -> int | None:
    """Bytes of one line of /proc/meminfo or a node's meminfo.

    >>> meminfo("Node 0 MemTotal:       65640324 kB", "MemTotal")
    67215691776
    """
    match = re.search(rf"(?:^|\s){re.escape(key)}:[ \t]+([0-9]{{1,16}})(?: kB)?", text)
    return int(match[1]) * 1024 if match else None


def status_list(text: str, key: str) -> frozenset[int] | None:
    """A list of /proc/self/status.

    >>> sorted(status_list("Cpus_allowed:\\t3\\nCpus_allowed_list:\\t0-1\\n", "Cpus_allowed_list"))
    [0, 1]
    """
    match = re.search(rf"^{re.escape(key)}:[ \t]*(\S*)$", text, re.MULTILINE)
    return cpu_list(match[1]) if match else None


def limits(text: str, name: str) -> tuple[int | None, int | None]:
    """Soft and hard limit of /proc/self/limits; -1 is unlimited, None unread.

    >>> limits("Max open files            1024                 524288               files", "Max open files")
    (1024, 524288)
    """
    match = re.search(
        rf"^{re.escape(name)} +([0-9]{{1,19}}|unlimited) +([0-9]{{1,19}}|unlimited)\s", text, re.MULTILINE
    )
    if not match:
        return None, None
    soft, hard = (-1 if word == "unlimited" else int(word) for word in match.groups())
    return soft, hard


_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def shm_mount(text: str) -> tuple[bool, int | None]:
    """Whether /dev/shm is mounted, and its size when the mount says it (/proc/mounts).

    The last mount counts: it covers the ones before it (`docker run -v ...:/dev/shm` over the container's own).

    >>> shm_mount("shm /dev/shm tmpfs rw,nosuid,nodev,noexec,relatime,size=65536k,inode64 0 0")
    (True, 67108864)
    >>> shm_mount("shm /dev/shm tmpfs rw,size=64k 0 0\\nx /dev/shm tmpfs rw,size=32g 0 0\\n")
    (True, 34359738368)
    """
    found = [fields for line in text.split("\n") if len(fields := line.split()) > 3 and fields[1] == "/dev/shm"]
    if not found:
        return False, None
    match = re.search(r"(?:^|,)size=([0-9]{1,15})([kmg]?)(?:,|$)", found[-1][3])
    return True, int(match[1]) * _SIZES[match[2]] if match else None


def cgroup_path(text: str) -> str:
    """Our folder below /sys/fs/cgroup, from /proc/self/cgroup (v2). One outside our own root is not to be seen.

    >>> cgroup_path("0::/system.slice/docker-3f.scope")
    '/system.slice/docker-3f.scope'
    """
    match = re.search(r"^0::(/.*)$", text, re.MULTILINE)
    path = match[1].rstrip("/") if match else ""
    return "" if ".." in path.split("/") or "\0" in path else path


def memory_max(text: str | None) -> int | None:
    """A cgroup memory limit in bytes; None for no limit. v1 spells "no limit" as a huge number.

    >>> memory_max("max\\n"), memory_max("68719476736\\n"), memory_max("9223372036854771712")
    (None, 68719476736, None)
    """
    value = number(text)
    return value if value is not None and 0 <= value < 1 << 60 else None


def cpu_max(text: str | None) -> float | None:
    """CPUs that cpu.max grants.

    >>> cpu_max("200000 100000"), cpu_max("max 100000")
    (2.0, None)
    """
    parts = (text or "").split()
    quota, period = (number(parts[0]), number(parts[1])) if len(parts) == 2 else (None, None)
    return quota / period if quota is not None and quota > 0 and period is not None and period > 0 else None


def bus_id(text: str) -> str:
    """A PCI address as sysfs spells it; NVML pads the domain to eight digits, people leave it out.

    All of the domain counts: behind a volume management device it has five digits, and four may be another card's.

    >>> bus_id("00000000:C1:00.0"), bus_id("c1:00.0"), bus_id("00010000:c1:00.0")
    ('0000:c1:00.0', '0000:c1:00.0', '10000:c1:00.0')
    """
    lowered = text.strip().lower()
    found = _ADDRESS.fullmatch(lowered)
    if not found:
        return lowered
    domain, bus, device, function = found.groups()
    return f"{int(domain or '0', 16):04x}:{bus:0>2}:{device:0>2}.{function or 0}"


def bridges(device_path: str) -> tuple[str, ...]:
    """Host bridge and PCI bridges above a card, from the real path of its sysfs folder.

    >>> bridges("/sys/devices/pci0000:40/0000:40:01.1/0000:41:00.0/0000:42:02.0/0000:43:00.0")
    ('pci0000:40', '0000:40:01.1', '0000:41:00.0', '0000:42:02.0')
    """
    parts = device_path.split("/")
    start = next((i for i, part in enumerate(parts) if re.fullmatch(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}", part)), None)
    return tuple(parts[start:-1]) if start is not None else ()


_ACS_CAPABILITY = 0x000D
_REQUEST_REDIRECT = 1 << 2


def acs_request_redirect(config: bytes) -> bool | None:
    """Whether ACS request redirect is on, from a bridge's PCI configuration space.

    Extended capabilities start at 0x100: id (16 bits), version (4), next (12). ACS: control register at +6.
    None when there is no such capability, or when only the first bytes are readable (not root).
    """
    offset, seen = 0x100, 0
    while offset and offset + 8 <= len(config) and seen < 64:
        header = int.from_bytes(config[offset : offset + 4], "little")
        if header in (0, 0xFFFFFFFF):
            return None
        if header & 0xFFFF == _ACS_CAPABILITY:
            return bool(int.from_bytes(config[offset + 6 : offset + 8], "little") & _REQUEST_REDIRECT)
        offset, seen = header >> 20, seen + 1
    return None


def iommu_mode(group_types: tuple[str, ...], has_iommu: bool, cmdline: str) -> str:
    """How devices reach memory: "translated" costs peer copies their path on many boards.

    >>> iommu_mode(("DMA-FQ",), True, ""), iommu_mode(("identity",), True, "iommu=pt"), iommu_mode((), False, "")
    ('translated', 'passthrough', 'off')
    """
    if any(kind.startswith("DMA") for kind in group_types):
        return "translated"
    if group_types:
        return "passthrough"
    if not has_iommu or re.search(r"\b(?:intel|amd)_iommu=off\b", cmdline):
        return "off"
    return "passthrough" if re.search(r"\biommu=pt\b", cmdline) else "translated"


def selinux(enforce: str | None, label: str | None) -> str | None:
    """How SELinux confines us; None where there is none. The type, the label's third part, is what rules are about.

    >>> selinux("1", "system_u:system_r:container_t:s0:c1,c2\\0"), selinux("0", None), selinux(None, "docker-default")
    ('enforcing, container_t', 'permissive', None)
    """
    if number(enforce) is None:
        return None
    parts = (label or "").strip("\0 \n").split(":")
    return "permissive" if number(enforce) == 0 else f"enforcing, {parts[2] if len(parts) > 2 else 'unknown type'}"


def user_namespace(uid_map: str) -> bool:
    """Whether uid 0 here is another user outside (/proc/self/uid_map: inside, outside, count).

    >>> user_namespace("         0       1000          1\\n"), user_namespace("0 0 4294967295\\n"), user_namespace("")
    (True, False, False)
    """
    rows = [[number(word) for word in line.split()] for line in uid_map.splitlines()]
    return any(row[1] not in (0, None) for row in rows if len(row) == 3 and row[0] == 0)


def cpu_model(cpuinfo: str) -> str | None:
    """The processor's name from /proc/cpuinfo; None where the kernel gives none.

    >>> cpu_model("processor\\t: 0\\nmodel name\\t: AMD EPYC 9654 96-Core Processor\\n")
    'AMD EPYC 9654 96-Core Processor'
    """
    match = re.search(r"^model name\s*: (.+)$", cpuinfo, re.MULTILINE)
    return match[1].strip() if match else None
