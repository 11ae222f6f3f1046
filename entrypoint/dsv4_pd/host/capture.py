"""HostFacts as JSON (`plan --facts FILE`), and captures of a machine (`doctor --capture DIR`)."""

from __future__ import annotations

import dataclasses
import json
import re
import types
import typing
from pathlib import Path
from typing import Any, TypeVar

from dsv4_pd.host.facts import HostFacts
from dsv4_pd.host.machine import CAPTURE_FILE, Machine, Recorder
from dsv4_pd.host.parse import acs_request_redirect, cpu_list, format_cpu_list
from dsv4_pd.host.read import facts_of

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


_KEPT_PACKAGES = re.compile(r"^Package: (?:docker-ce|docker\.io|nvidia-container-toolkit)\n(?:.+\n?)*", re.MULTILINE)
_KEPT_LINES = {
    "/proc/self/status": re.compile(r"^(?:Cpus|Mems)_allowed_list:"),
    "/proc/mounts": re.compile(r" /dev/shm "),
    "/proc/meminfo": re.compile(r"^Mem(?:Total|Available):"),
    "/proc/self/limits": re.compile(r"^Max (?:open files|locked memory) "),
}
_SECRET_WORDS = re.compile(r"(?i)((?:key|token|secret|password|passwd)[a-z_-]*['\"]?\s*[=: ]\s*)(\S+)")


def scrub(record: dict[str, Any]) -> dict[str, Any]:
    """A record with only the parts of long files that are parsed; UUIDs replaced by stable invented ones."""
    files = {path: _scrub_file(path, text) for path, text in record["files"].items()}
    # Configuration space may hold a device serial number: keep only what is parsed.
    spaces = {path: minimal_config(acs_request_redirect(bytes.fromhex(data))) for path, data in record["bytes"].items()}
    uuids = [gpu["uuid"] for gpu in record["nvml"].get("gpus", [])]
    text = json.dumps({**record, "files": files, "bytes": spaces})
    for number, uuid in enumerate(uuids):
        text = text.replace(uuid, f"GPU-{number:08x}-0000-4000-8000-{number:012x}")
    scrubbed: dict[str, Any] = json.loads(text)
    return scrubbed


def minimal_config(redirect: bool | None) -> str:
    """Hex of a configuration space that says only this about ACS."""
    if redirect is None:
        return bytes(64).hex()
    capability = (0x000D | 1 << 16).to_bytes(4, "little")
    return (bytes(0x100) + capability + bytes(2) + (4 if redirect else 0).to_bytes(2, "little")).hex()


def _scrub_file(path: str, text: str) -> str:
    if path in _KEPT_LINES:
        return "".join(line for line in text.splitlines(keepends=True) if _KEPT_LINES[path].search(line))
    if path == "/var/lib/dpkg/status":
        return "".join(match[0] + "\n" for match in _KEPT_PACKAGES.finditer(text))
    if path == "/proc/cpuinfo":
        return "flags\t\t: fpu hypervisor\n" if " hypervisor" in text else "flags\t\t: fpu\n"
    if path == "/proc/1/environ":
        return "container=" if "container=" in text else ""
    if path.startswith("/etc/") or path == "/proc/cmdline":
        return _SECRET_WORDS.sub(r"\1REPLACED", text)
    return text
