"""Parsers of /proc and /sys files: functions of text, each with a real sample."""

from __future__ import annotations

import re


def cpu_list(text: str) -> frozenset[int]:
    """Numbers of a kernel list.

    >>> sorted(cpu_list("0-2,8"))
    [0, 1, 2, 8]
    """
    found: set[int] = set()
    for part in filter(None, (piece.strip() for piece in text.strip().split(","))):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            found.update(range(int(first), int(last or first) + 1))
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
    match = re.search(rf"\b{key}:\s+(\d+)(?: kB)?", text)
    return int(match[1]) * 1024 if match else None


def status_list(text: str, key: str) -> frozenset[int] | None:
    """A list of /proc/self/status.

    >>> sorted(status_list("Cpus_allowed:\\t3\\nCpus_allowed_list:\\t0-1\\n", "Cpus_allowed_list"))
    [0, 1]
    """
    match = re.search(rf"^{key}:\s*(\S*)$", text, re.MULTILINE)
    return cpu_list(match[1]) if match else None


def limits(text: str, name: str) -> tuple[int | None, int | None]:
    """Soft and hard limit of /proc/self/limits; -1 is unlimited, None unread.

    >>> limits("Max open files            1024                 524288               files", "Max open files")
    (1024, 524288)
    """
    match = re.search(rf"^{name}\s+(\d+|unlimited)\s+(\d+|unlimited)\s", text, re.MULTILINE)
    if not match:
        return None, None
    soft, hard = (-1 if word == "unlimited" else int(word) for word in match.groups())
    return soft, hard


_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def shm_mount(text: str) -> tuple[bool, int | None]:
    """Whether /dev/shm is mounted, and its size when the mount says it (/proc/mounts).

    >>> shm_mount("shm /dev/shm tmpfs rw,nosuid,nodev,noexec,relatime,size=65536k,inode64 0 0")
    (True, 67108864)
    """
    for line in text.splitlines():
        fields = line.split()
        if len(fields) > 3 and fields[1] == "/dev/shm":
            match = re.search(r"(?:^|,)size=(\d+)([kmg]?)", fields[3])
            return True, int(match[1]) * _SIZES[match[2]] if match else None
    return False, None


def cgroup_path(text: str) -> str:
    """Our folder below /sys/fs/cgroup, from /proc/self/cgroup (v2).

    >>> cgroup_path("0::/system.slice/docker-3f.scope")
    '/system.slice/docker-3f.scope'
    """
    match = re.search(r"^0::(/.*)$", text, re.MULTILINE)
    return match[1].rstrip("/") if match else ""


def memory_max(text: str | None) -> int | None:
    """A cgroup memory limit in bytes; None for no limit. v1 spells "no limit" as a huge number.

    >>> memory_max("max\\n"), memory_max("68719476736\\n"), memory_max("9223372036854771712")
    (None, 68719476736, None)
    """
    value = (text or "").strip()
    return int(value) if value.isdecimal() and int(value) < 1 << 60 else None


def cpu_max(text: str | None) -> float | None:
    """CPUs that cpu.max grants.

    >>> cpu_max("200000 100000"), cpu_max("max 100000")
    (2.0, None)
    """
    parts = (text or "").split()
    return int(parts[0]) / int(parts[1]) if len(parts) == 2 and all(p.isdecimal() for p in parts) else None


def bus_id(text: str) -> str:
    """A PCI address as sysfs spells it; NVML pads the domain to eight digits, people leave it out.

    >>> bus_id("00000000:C1:00.0"), bus_id("c1:00.0")
    ('0000:c1:00.0', '0000:c1:00.0')
    """
    lowered = text.strip().lower()
    if lowered.count(":") == 1:
        lowered = "0000:" + lowered
    domain, _, rest = lowered.partition(":")
    return f"{domain[-4:]:0>4}:{rest}"


def bridges(device_path: str) -> tuple[str, ...]:
    """Host bridge and PCI bridges above a card, from the real path of its sysfs folder.

    >>> bridges("/sys/devices/pci0000:40/0000:40:01.1/0000:41:00.0/0000:42:02.0/0000:43:00.0")
    ('pci0000:40', '0000:40:01.1', '0000:41:00.0', '0000:42:02.0')
    """
    parts = device_path.split("/")
    start = next((i for i, part in enumerate(parts) if part.startswith("pci")), None)
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


_SERVER_WORDS = re.compile(r"sglang|vllm|trtllm|text-generation|llama-server", re.IGNORECASE)
_PORT_FLAGS = re.compile(r"--(?:[a-z-]*port|prometheus-port)[ =]+(\d{2,5})")


def unit_command(text: str) -> str | None:
    """The start command of a systemd unit that runs a model server or its router, on one line; else None.

    >>> unit_command("[Service]\\nExecStart=/opt/v/bin/python -m sglang.launch_server \\\\\\n  --port 30000\\n")
    '/opt/v/bin/python -m sglang.launch_server --port 30000'
    """
    joined = re.sub(r"\\\n\s*", "", text)
    match = re.search(r"^ExecStart=[-@:+!]*(.+)$", joined, re.MULTILINE)
    return match[1].strip() if match and _SERVER_WORDS.search(match[1]) else None


def command_ports(command: str) -> tuple[int, ...]:
    """Ports on a server's command line.

    >>> command_ports("python -m sglang_router.launch_router --port 8000 --prefill http://127.0.0.1:30000 8998")
    (8000, 30000, 8998)
    """
    found = [int(port) for port in _PORT_FLAGS.findall(command)]
    for port, bootstrap in re.findall(r"https?://[^\s:/]+:(\d+)/?(?:\s+(\d{2,5}))?", command):
        found += [int(port)] + ([int(bootstrap)] if bootstrap else [])
    return tuple(dict.fromkeys(found))


def cpu_model(cpuinfo: str) -> str | None:
    """The processor's name from /proc/cpuinfo; None where the kernel gives none.

    >>> cpu_model("processor\\t: 0\\nmodel name\\t: AMD EPYC 9654 96-Core Processor\\n")
    'AMD EPYC 9654 96-Core Processor'
    """
    match = re.search(r"^model name\s*: (.+)$", cpuinfo, re.MULTILINE)
    return match[1].strip() if match else None
