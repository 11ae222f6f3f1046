"""The one door to the machine: files, links, NVML and numactl below a root, live or replayed from a capture.

A capture is a folder with `machine.json`: the text of every file that was read, the targets of the links, the
folder listings, NVML's answers and the NUMA policy that numactl could set. `Recorder` writes down what the readers ask,
so that a capture holds exactly what a replay needs.
"""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path
from typing import Any, Protocol, get_args

from dsv4_pd.host import numa, nvml_reader, typed

CAPTURE_FILE = "machine.json"
_MAX_BYTES = 1 << 20
_UNRESTRICTED = numa.Permission("membind")  # what is assumed of a machine that nobody asked


class Machine(Protocol):
    """What readers may ask."""

    @property
    def here(self) -> bool:
        """Whether it is the machine that we run on: its ports can be tried, its folders measured."""

    def text(self, path: str) -> str | None:
        """Text of a small file, or None when it can't be read."""

    def data(self, path: str) -> bytes | None:
        """Bytes of a small file."""

    def names(self, path: str) -> tuple[str, ...]:
        """Sorted names in a folder; empty when it can't be read."""

    def link(self, path: str) -> str | None:
        """The real path of a file, below the root; None when it doesn't exist."""

    def nvml(self) -> dict[str, Any]:
        """NVML's answers, see `host.nvml.query`."""

    def numa(self, node: int) -> numa.Permission:
        """The strongest NUMA policy that may be set, by a dry run on one node."""

    def clock(self) -> float:
        """The system clock, seconds since the epoch."""


class Live:
    """The machine itself (root `/`) or a folder that looks like one; NVML only at `/`."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root

    @property
    def here(self) -> bool:
        return self.root == Path("/")

    def _at(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def text(self, path: str) -> str | None:
        found = self.data(path)
        return None if found is None else found.decode("utf-8", "replace")

    def data(self, path: str) -> bytes | None:
        try:
            with self._at(path).open("rb") as file:
                return file.read(_MAX_BYTES)
        except OSError:
            return None

    def names(self, path: str) -> tuple[str, ...]:
        try:
            return tuple(sorted(item.name for item in self._at(path).iterdir()))
        except OSError:
            return ()

    def link(self, path: str) -> str | None:
        try:
            found = self._at(path).resolve(strict=True)
        except (OSError, RuntimeError):
            return None
        return "/" + str(found.relative_to(self.root.resolve())) if self.root != Path("/") else str(found)

    def nvml(self) -> dict[str, Any]:
        if not self.here:
            return {"error": "NVML answers only for the machine itself", "gpus": []}
        if not any(Path(name).exists() for name in ("/dev/nvidiactl", "/dev/dxg")):
            return {"error": "no NVIDIA device file (/dev/nvidiactl)", "gpus": []}
        return nvml_reader.query()

    def numa(self, node: int) -> numa.Permission:
        return numa.probe(node) if self.here else _UNRESTRICTED

    def clock(self) -> float:
        return time.time()


class Replay:
    """A machine read back from `machine.json`."""

    here = False

    def __init__(self, source: Path | dict[str, Any]) -> None:
        """A folder that holds a capture, or a capture's values."""
        record = source if isinstance(source, dict) else _load(source / CAPTURE_FILE)
        self._record: dict[str, Any] = record

    def _at(self, kind: str, path: str) -> Any:
        """What a capture holds; a part of a strange kind holds nothing."""
        part = self._record.get(kind)
        return part.get(path) if isinstance(part, dict) else None

    def text(self, path: str) -> str | None:
        return typed.text(self._at("files", path))

    def data(self, path: str) -> bytes | None:
        try:
            return bytes.fromhex(typed.text(self._at("bytes", path)) or "") or None
        except ValueError:
            return None

    def names(self, path: str) -> tuple[str, ...]:
        found = self._at("folders", path)
        return tuple(name for name in found if isinstance(name, str)) if isinstance(found, list) else ()

    def link(self, path: str) -> str | None:
        return typed.text(self._at("links", path))

    def nvml(self) -> dict[str, Any]:
        found: dict[str, Any] = self._record["nvml"]
        return found

    def numa(self, node: int) -> numa.Permission:
        given = self._record.get("numa")
        if not isinstance(given, dict) or given.get("policy") not in get_args(numa.Policy):
            return _UNRESTRICTED
        installed = typed.flag(given.get("installed")) is not False
        return numa.Permission(given["policy"], typed.text(given.get("reason")), installed)

    def clock(self) -> float:
        found = self._record.get("clock", 0.0)
        return float(found) if isinstance(found, int | float) else 0.0


def _load(file: Path) -> dict[str, Any]:
    record = json.loads(file.read_text(encoding="utf-8"))
    if not isinstance(record, dict):
        raise TypeError(f"a {type(record).__name__}, not an object")
    return record


class Recorder:
    """Passes each question on and keeps question and answer."""

    def __init__(self, inner: Machine) -> None:
        self._inner = inner
        self.here = inner.here
        self.record: dict[str, Any] = {"files": {}, "bytes": {}, "folders": {}, "links": {}, "nvml": {}, "clock": 0.0}

    def _keep(self, kind: str, path: str, value: Any, stored: Any) -> Any:
        if value not in (None, ()):
            self.record[kind][path] = stored
        return value

    def text(self, path: str) -> str | None:
        found = self._inner.text(path)
        self._keep("files", path, found, found)
        return found

    def data(self, path: str) -> bytes | None:
        found = self._inner.data(path)
        self._keep("bytes", path, found, found.hex() if found else "")
        return found

    def names(self, path: str) -> tuple[str, ...]:
        found = self._inner.names(path)
        self._keep("folders", path, found, list(found))
        return found

    def link(self, path: str) -> str | None:
        found = self._inner.link(path)
        self._keep("links", path, found, found)
        return found

    def nvml(self) -> dict[str, Any]:
        self.record["nvml"] = self._inner.nvml()
        found: dict[str, Any] = self.record["nvml"]
        return found

    def numa(self, node: int) -> numa.Permission:
        found = self._inner.numa(node)
        self.record["numa"] = dataclasses.asdict(found)
        return found

    def clock(self) -> float:
        found = self._inner.clock()
        self.record["clock"] = found
        return found
