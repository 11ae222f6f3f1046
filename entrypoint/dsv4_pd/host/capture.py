"""HostFacts as JSON (`plan --facts FILE`), and captures of a machine (`doctor --capture DIR`)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from dsv4_pd.host.facts import HostFacts
from dsv4_pd.host.machine import CAPTURE_FILE, Machine, Recorder, Replay
from dsv4_pd.host.numa import Permission
from dsv4_pd.host.parse import acs_request_redirect
from dsv4_pd.host.read import facts_of, probe_node
from dsv4_pd.host.system import IN_CONTAINER, UNIT_FOLDER
from dsv4_pd.host.unit_files import unit_command

_FACTS = TypeAdapter(HostFacts)


@dataclass(frozen=True, slots=True)
class Captured:
    """What stands in `machine.json`: the answers to each question that a Machine was asked."""

    nvml: dict[str, Any]
    files: dict[str, str] = field(default_factory=dict)
    bytes: dict[str, str] = field(default_factory=dict)  # hexadecimal
    folders: dict[str, list[str]] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    numa: Permission | None = None
    clock: float = 0.0


_CAPTURED = TypeAdapter(Captured)


def to_json(facts: HostFacts) -> str:
    """The facts as JSON text; sets of numbers in the kernel's spelling ("0-3,8")."""
    return _FACTS.dump_json(facts, indent=2).decode() + "\n"


def from_json(text: str) -> HostFacts:
    """Facts back from `to_json`'s text; fields that this version does not know are left out.

    Raises:
        ValueError: when the text is something else; one line.
    """
    try:
        return _FACTS.validate_json(text)
    except ValidationError as error:
        raise ValueError(f"no facts file ({_first(error)})") from error


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else first["msg"]


def open_capture(folder: Path) -> Machine:
    """The machine captured in a folder, read through once.

    Raises:
        ValueError: when the folder holds no capture; one line.
    """
    if not (folder / CAPTURE_FILE).is_file():
        raise ValueError(f"no {CAPTURE_FILE} in {str(folder)!r}")
    try:
        # Before anything is looked up in it: a capture may have been edited, or be no capture at all.
        machine = Replay(asdict(_CAPTURED.validate_json((folder / CAPTURE_FILE).read_bytes(), strict=True)))
        facts = facts_of(machine)
        _require_some(facts)
    except ValidationError as error:
        raise ValueError(f"a damaged {CAPTURE_FILE} ({_first(error)})") from error
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        words = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"a damaged {CAPTURE_FILE} ({type(error).__name__}: {words})") from error
    return machine


def _require_some(facts: HostFacts) -> None:
    """A record of which not even one card can be read is no machine of ours."""
    if facts.unread and not facts.gpus:
        raise ValueError(facts.unread[0])


def capture(machine: Machine, folder: Path) -> Path:
    """Write what the readers read from a machine, without serials, names or secrets; returns the file."""
    recorder = Recorder(machine)
    recorder.numa(probe_node(facts_of(recorder)))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / CAPTURE_FILE
    path.write_text(text_of(scrub(recorder.record)), encoding="utf-8")
    return path


def save(machine: Machine, folder: Path) -> Path:
    """Capture a machine: machine.json for `--replay`, facts.json for `plan --facts`; returns the first."""
    path = capture(machine, folder)
    (folder / "facts.json").write_text(to_json(facts_of(Replay(folder))), encoding="utf-8")
    return path


def text_of(record: dict[str, Any]) -> str:
    """A capture's text."""
    return json.dumps(record, indent=1) + "\n"


# Only the lines that a reader parses are kept: a capture is meant to be shown to strangers.
_KEPT_LINES = {
    "/proc/self/status": r"^(?:Cpus|Mems)_allowed_list:",
    "/proc/mounts": r" /dev/shm ",
    "/proc/meminfo": r"^Mem(?:Total|Available):",
    "/proc/self/limits": r"^Max (?:open files|locked memory) ",
    "/proc/self/cgroup": r"^0::",
}
_KEPT_PACKAGES = re.compile(r"^Package: (?:docker-ce|docker\.io|nvidia-container-toolkit)\n(?:.+\n?)*", re.MULTILINE)
_KEPT_NAMES = re.compile(
    r"nvidia|libcuda|libnvidia-ml|^\d+$|^dmar|^ivhd|^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$"
)
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
    for uuid, invented in invented_uuids(uuids).items():
        text = text.replace(uuid, invented)
    scrubbed: dict[str, Any] = json.loads(text) | {"bytes": kept["bytes"]}
    return scrubbed


def invented_uuids(uuids: Iterable[str]) -> dict[str, str]:
    """Real UUID -> the one that stands for it in everything that leaves the machine."""
    return {uuid: f"GPU-{number:08x}-0000-4000-8000-{number:012x}" for number, uuid in enumerate(uuids)}


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
    "/proc/1/environ": lambda text: f"container={said[1]}" if (said := IN_CONTAINER.search(text)) else "",
    "/proc/cmdline": lambda text: " ".join(word for word in text.split() if "iommu" in word) + "\n",
    "/etc/docker/daemon.json": lambda text: '{"runtimes": {"nvidia": {}}}' if '"nvidia"' in text else "{}",
}
