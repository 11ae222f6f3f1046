"""GPU code inside ELF libraries: list it by architecture, and zero what one card never loads.

    python3 fatbin.py list FILE...
    python3 fatbin.py shrink CARD FILE...     the same, and take the zeroes out of the file (holes.py)
    python3 fatbin.py strip CARD FILE...      CARD: 90, 120, ...: the compute capability without its dot
    python3 fatbin.py check CARD FILE...      exit 1 where a kernel's code for the card is incomplete

Only payload bytes change: headers, sizes and addresses stay, so a library loads as before. Zeroes compress to almost
nothing. A section holds units, one for each translation unit that nvcc compiled:

    unit    u32 magic BA55ED50 | u16 version | u16 header bytes | u64 bytes of entries that follow
    entry   u16 kind (1: PTX, 2: machine code) | u16 version | u32 header bytes | u64 payload bytes | ...
            | u32 architecture at byte 28 (90 for sm_90 and sm_90a) ..., then the payload, which may be compressed
"""

from __future__ import annotations

import argparse
import mmap
import struct
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # beside this file, wherever it is run from
import holes

MAGIC = 0xBA55ED50
PTX, ELF = 1, 2
KINDS = {PTX: "ptx", ELF: "sm"}
SECTIONS = (".nv_fatbin", "__nv_relfatbin")  # units and padding alone
MIXED = (".cask_resource", ".ldata")  # cuBLASLt and cuFFT keep units among other data
_UNIT = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQ")
_ARCH_AT = 28
_LARGEST_HEADER = 4096
Buffer = bytes | bytearray | mmap.mmap


class FatbinError(ValueError):
    """The file holds something that this parser does not know."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One architecture's code of a unit. `start`: of the payload in the file, in bytes."""

    kind: int
    arch: int
    start: int
    size: int

    @property
    def name(self) -> str:
        return f"{KINDS.get(self.kind, f'kind{self.kind}')}_{self.arch}"


@dataclass(slots=True)
class Outcome:
    """Bytes of payload by what was done with them."""

    kept: Counter[str] = field(default_factory=Counter)
    zeroed: Counter[str] = field(default_factory=Counter)
    units: int = 0


@dataclass(frozen=True, slots=True)
class Section:
    start: int
    size: int
    mixed: bool  # what looks like a unit and is none is other data, not a fault


def sections(data: Buffer) -> Iterator[Section]:
    """Each section that holds units, of a 64-bit little-endian ELF file."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise FatbinError(f"starts with {bytes(data[:6])!r}, expected a 64-bit little-endian ELF file")
    (table,) = struct.unpack_from("<Q", data, 40)
    size, count, names_index = struct.unpack_from("<HHH", data, 58)
    rows = [struct.unpack_from("<IIQQQQ", data, table + index * size) for index in range(count)]
    names = rows[names_index][4] if rows else 0
    for name_at, kind, _flags, _address, start, length in rows:
        begin = names + name_at
        name = bytes(data[begin : data.find(b"\0", begin)]).decode()
        if name in (*SECTIONS, *MIXED) and kind != 8:  # 8: takes no room in the file
            yield Section(start, length, name in MIXED)


def units(data: Buffer, section: Section) -> Iterator[list[Entry]]:
    """The units of one section; between them lies padding."""
    at, end = section.start, section.start + section.size
    mark = struct.pack("<I", MAGIC)
    while (at := data.find(mark, at, end)) >= 0:
        try:
            after, entries = _unit(data, at, end)
        except FatbinError:
            if not section.mixed:
                raise
            at += 4
            continue
        yield entries
        at = after


def _unit(data: Buffer, at: int, end: int) -> tuple[int, list[Entry]]:
    """Where the unit at `at` ends, and its entries."""
    if at + _UNIT.size > end:
        raise FatbinError(f"unit at {at:#x}: cut off at {end:#x}")
    _magic, _version, head, body = _UNIT.unpack_from(data, at)
    after = at + head + body
    if head < _UNIT.size or after > end:
        raise FatbinError(f"unit at {at:#x}: header {head} and body {body} bytes, expected to end by {end:#x}")
    return after, list(_entries(data, at + head, after))


def _entries(data: Buffer, at: int, end: int) -> Iterator[Entry]:
    while at + _ARCH_AT + 4 <= end:
        kind, _version, head, size = _ENTRY.unpack_from(data, at)
        (arch,) = struct.unpack_from("<I", data, at + _ARCH_AT)
        if not 0 < kind <= 64 or not _ARCH_AT + 4 <= head <= _LARGEST_HEADER or at + head + size > end:
            raise FatbinError(f"entry at {at:#x}: kind {kind}, header {head}, payload {size}, end {end:#x}")
        yield Entry(kind, arch, at + head, size)
        at += head + size


def needed(entries: list[Entry], card: int) -> list[Entry]:
    """What the driver may load of a unit on this card.

    Machine code of the nearest architecture that the card runs (same major, minor at most its own), in each of its
    variants (`a`, `f`: the same number); where there is none, the PTX of the newest architecture up to the card's,
    which the driver compiles. Kinds that are neither are kept.
    """
    code = [e for e in entries if e.kind == ELF and e.arch // 10 == card // 10 and e.arch <= card]
    if not code:
        code = [e for e in entries if e.kind == PTX and e.arch <= card]
    newest = max((e.arch for e in code), default=0)
    chosen = {e for e in code if e.arch == newest}
    return [e for e in entries if e in chosen or e.kind not in (PTX, ELF)]


def strip(path: Path, card: int) -> Outcome:
    """Zero every payload that the card does not need, in place."""
    done = Outcome()
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as data:
        for section in sections(data):
            for entries in units(data, section):
                done.units += 1
                keep = needed(entries, card)
                for entry in entries:
                    if entry in keep:
                        done.kept[entry.name] += entry.size
                    else:
                        data[entry.start : entry.start + entry.size] = bytes(entry.size)
                        done.zeroed[entry.name] += entry.size
    return done


def shrink(path: Path, card: int) -> int:
    """Zero every payload that the card does not need, and take it out of the file; how many bytes shorter that is.

    What the loader makes of it in memory is what `strip` makes of it.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        unused = [
            holes.Run(entry.start, entry.start + entry.size)
            for section in sections(data)
            for entries in units(data, section)
            for entry in set(entries) - set(needed(entries, card))
        ]
        here = any(data[run.start : run.end].strip(b"\0") for run in unused)
    if here:
        strip(path, card)
    return holes.punch(path, unused)


def listed(path: Path) -> Outcome:
    """Bytes of payload by architecture; those that a former strip zeroed apart."""
    done = Outcome()
    data = holes.filled(path.read_bytes())
    for section in sections(data):
        for entries in units(data, section):
            done.units += 1
            for entry in entries:
                (done.kept if _present(data, entry) else done.zeroed)[entry.name] += entry.size
    return done


def missing(path: Path, card: int) -> list[str]:
    """Units whose code for the card is not there: an entry that the card needs is zeroed. Empty when all is well."""
    wrong = []
    data = holes.filled(path.read_bytes())
    for section in sections(data):
        for number, entries in enumerate(units(data, section)):
            gone = [e.name for e in needed(entries, card) if e.size and not _present(data, e)]
            wrong += [f"{path.name}: unit {number} at {section.start:#x} lacks {name}" for name in gone]
    return wrong


def _present(data: Buffer, entry: Entry) -> bool:
    return bytes(data[entry.start : entry.start + entry.size]).strip(b"\0") != b""


def _line(path: Path, done: Outcome) -> str:
    def megabytes(counter: Counter[str]) -> str:
        return ", ".join(f"{name} {size / 1e6:.1f}" for name, size in sorted(counter.items())) or "nothing"

    kept, zeroed = done.kept.total() / 1e6, done.zeroed.total() / 1e6
    sizes = f"{kept:.1f} MB present, {zeroed:.1f} MB zeroed"
    return f"{path.name}: {done.units} units, {sizes}; present: {megabytes(done.kept)}"


def main() -> int:
    parser = argparse.ArgumentParser(description="GPU code inside ELF libraries.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("list", "strip", "shrink", "check"):
        command = commands.add_parser(name)
        if name != "list":
            command.add_argument("card", type=int, help="90, 120, ...")
        command.add_argument("file", type=Path, nargs="+")
    options = parser.parse_args()
    wrong: list[str] = []
    for path in options.file:
        if options.command == "check":
            wrong += missing(path, options.card)
            continue
        if options.command == "shrink":
            print(f"{path.name}: {shrink(path, options.card) / 1e6:.1f} MB shorter", flush=True)
            continue
        done = listed(path) if options.command == "list" else strip(path, options.card)
        print(_line(path, done), flush=True)
    print(*wrong, sep="\n", end="\n" if wrong else "", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
