"""HostFacts as JSON (`plan --facts FILE`), and captures of a machine (`doctor --capture DIR`)."""

from __future__ import annotations

import dataclasses
import json
import re
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from dsv4_pd.host.facts import HostFacts
from dsv4_pd.host.machine import CAPTURE_FILE, Machine, Recorder
from dsv4_pd.host.parse import acs_request_redirect, cpu_list, format_cpu_list, unit_command
from dsv4_pd.host.read import facts_of
from dsv4_pd.host.system import UNIT_FOLDER

_T = TypeVar("_T")


def to_json(facts: HostFacts) -> str:
    """The facts as JSON text; sets of numbers in the kernel's spelling ("0-3,8")."""
    return json.dumps(_plain(facts), indent=2) + "\n"


def from_json(text: str) -> HostFacts:
    """Facts back from `to_json`'s text.

    Raises:
        ValueError: when the text is something else.
    """
    data = json.loads(text)
    if not isinstance(data, dict) or "gpus" not in data:
        raise ValueError("not a file that `dsv4-pd plan` or `doctor` wrote")
    return _typed(HostFacts, data)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, frozenset):
        return format_cpu_list(value)
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _typed(kind: type[_T], data: dict[str, Any]) -> _T:
    hints = typing.get_type_hints(kind)
    return kind(**{name: _value(hints[name], item) for name, item in data.items() if name in hints})


def _value(hint: Any, item: Any) -> Any:
    if item is None:
        return None
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return _value(next(arg for arg in inner if arg is not type(None)), item)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _typed(hint, item)
    if origin is frozenset:
        return cpu_list(item)
    if origin is tuple:
        kinds = [inner[0]] * len(item) if inner[-1] is Ellipsis else inner
        return tuple(_value(kind, part) for kind, part in zip(kinds, item, strict=True))
    return item


def capture(machine: Machine, folder: Path) -> Path:
    """Write what the readers read from a machine, without serials, names or secrets; returns the file."""
    recorder = Recorder(machine)
    facts_of(recorder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / CAPTURE_FILE
    path.write_text(json.dumps(scrub(recorder.record), indent=1) + "\n", encoding="utf-8")
    return path


# Only the lines that a reader parses are kept: a capture is meant to be shown to strangers.
_KEPT_LINES = {
    "/proc/self/status": r"^(?:Cpus|Mems)_allowed_list:",
    "/proc/mounts": r" /dev/shm ",
    "/proc/meminfo": r"^Mem(?:Total|Available):",
    "/proc/self/limits": r"^Max (?:open files|locked memory) ",
    "/proc/self/cgroup": r"^0::",
}
_KEPT_PACKAGES = re.compile(r"^Package: (?:docker-ce|docker\.io|nvidia-container-toolkit)\n(?:.+\n?)*", re.MULTILINE)
_KEPT_NAMES = re.compile(r"nvidia|libcuda|libnvidia-ml|^\d+$|^dmar|^ivhd")
_SECRET_WORDS = re.compile(r"(?i)((?:key|token|secret|password|passwd)[a-z_-]*['\"]?\s*[=: ]\s*)(\S+)")
_LONG_ID = re.compile(r"[0-9a-f]{32,}")


def scrub(record: dict[str, Any]) -> dict[str, Any]:
    """A record with only what is parsed: no serials, container ids, host names or secrets; invented UUIDs."""
    uuids = [gpu["uuid"] for gpu in record["nvml"].get("gpus", [])]
    kept = {
        **record,
        "files": {p: text for p, raw in record["files"].items() if (text := _scrub_file(p, raw)) is not None},
        # Configuration space may hold a device serial number.
        "bytes": {p: minimal_config(acs_request_redirect(bytes.fromhex(d))) for p, d in record["bytes"].items()},
        "folders": {path: _scrub_names(path, names, record["files"]) for path, names in record["folders"].items()},
    }
    text = _LONG_ID.sub("0" * 12, json.dumps({**kept, "bytes": {}}))
    for number, uuid in enumerate(uuids):
        text = text.replace(uuid, f"GPU-{number:08x}-0000-4000-8000-{number:012x}")
    scrubbed: dict[str, Any] = json.loads(text) | {"bytes": kept["bytes"]}
    return scrubbed


def _scrub_names(path: str, names: list[str], files: dict[str, str]) -> list[str]:
    if path == UNIT_FOLDER:
        return [name for name in names if unit_command(files.get(f"{path}/{name}", ""))]
    return [name for name in names if _KEPT_NAMES.search(name)]


def minimal_config(redirect: bool | None) -> str:
    """Hex of a configuration space that says only this about ACS."""
    if redirect is None:
        return bytes(64).hex()
    capability = (0x000D | 1 << 16).to_bytes(4, "little")
    return (bytes(0x100) + capability + bytes(2) + (4 if redirect else 0).to_bytes(2, "little")).hex()


def _scrub_file(path: str, text: str) -> str | None:
    """What is kept of a file; None to leave it out."""
    kept = _KEPT_LINES.get(path, r"Mem(?:Total|Free):" if path.endswith("/meminfo") else None)
    if kept:
        return "".join(line for line in text.splitlines(keepends=True) if re.search(kept, line))
    if path.startswith(UNIT_FOLDER):
        command = unit_command(text)
        return f"ExecStart={_SECRET_WORDS.sub(_MASKED, command)}\n" if command else None
    return _SHORTENED[path](text) if path in _SHORTENED else text


def _cpuinfo(text: str) -> str:
    """The processor's name and whether it is a virtual one."""
    name = re.search(r"^model name.*\n", text, re.MULTILINE)
    return (name[0] if name else "") + f"flags\t\t: fpu{' hypervisor' if ' hypervisor' in text else ''}\n"


_MASKED = r"\1REPLACED"
_SHORTENED: dict[str, Callable[[str], str]] = {
    "/var/lib/dpkg/status": lambda text: "".join(m[0] + "\n" for m in _KEPT_PACKAGES.finditer(text)),
    "/proc/cpuinfo": _cpuinfo,
    "/proc/1/environ": lambda text: "container=" if "container=" in text else "",
    "/proc/cmdline": lambda text: " ".join(word for word in text.split() if "iommu" in word) + "\n",
    "/etc/docker/daemon.json": lambda text: '{"runtimes": {"nvidia": {}}}' if '"nvidia"' in text else "{}",
}
