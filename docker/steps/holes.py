"""Take zeroes out of an ELF library's file, so that what the loader makes of it in memory stays byte for byte the same.

A loadable segment may be longer in memory than in the file; the rest is zeroes. So a segment with long runs of zeroes
becomes several, each as long in the file as it has bytes, and the file loses whole pages:

    file     | kept | zeroes  | kept | tables |          | kept | kept | tables | segments | note |
    memory   | kept | zeroes  | kept |            ->     | kept | zeroes  | kept |

Every address stays. Sections that lost pages are marked as without bytes (SHT_NOBITS). The note at the end lists what
was taken out, for `filled`, the way back.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

PAGE = 4096
SHORTEST = 65_536  # each run costs two mappings in every process that loads the library
MOST_SEGMENTS = 4_000
_LOAD, _PHDR, _NOBITS, _PROGBITS = 1, 6, 8, 1
_PROGRAM = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_NOTE, _RUN = struct.Struct("<QQ8s"), struct.Struct("<QQ")
MARK = b"DSV4HOLE"


class HolesError(ValueError):
    """A file that this can't rewrite."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A program header, in the order of its fields."""

    kind: int
    flags: int
    offset: int
    address: int
    physical: int
    in_file: int
    in_memory: int
    align: int


@dataclass(frozen=True, slots=True)
class Run:
    """Bytes of a file, from `start` to before `end`."""

    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


def segments(data: bytes) -> list[Segment]:
    """The program headers of a 64-bit little-endian ELF file."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise HolesError(f"starts with {data[:6]!r}, expected a 64-bit little-endian ELF file")
    (start,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    return [Segment(*_PROGRAM.unpack_from(data, start + index * size)) for index in range(count)]


def memory(programs: Iterable[Segment], data: bytes) -> list[tuple[int, int, int, str]]:
    """What the loader makes: (address, flags, bytes, their digest). Segments that touch and may do the same are one."""
    found: list[tuple[int, int, int, str]] = []
    for one in programs:
        if one.kind != _LOAD:
            continue
        if not found or (found[-1][0] + found[-1][2], found[-1][1]) != (one.address, one.flags):
            found.append((one.address, one.flags, 0, ""))
            digest = hashlib.sha256()
        digest.update(memoryview(data)[one.offset : one.offset + one.in_file])
        digest.update(bytes(one.in_memory - one.in_file))
        begin, flags, size, _ = found[-1]
        found[-1] = (begin, flags, size + one.in_memory, digest.hexdigest())
    return found


def punch(path: Path, unused: Iterable[Run]) -> int:
    """Take out what lies in `unused`, all of it zeroes, in whole pages; returns how many bytes shorter the file is.

    Raises:
        HolesError: the file has an unusual form, or something to take out is not zero. It is then as it was.
    """
    data = path.read_bytes()
    if data.endswith(MARK):
        raise HolesError(f"{path.name}: was rewritten before")
    runs = _pages(unused, [one for one in segments(data) if one.kind == _LOAD])
    if not runs:
        return 0
    if any(_cut(one, run) for one in segments(data) if one.kind != _LOAD for run in runs):
        raise HolesError(f"{path.name}: zeroes in a segment that is not loaded as it is")
    if wrong := next((run for run in runs if data[run.start : run.end].strip(b"\0")), None):
        raise HolesError(f"{path.name}: bytes at {wrong.start:#x} are not zero")
    fresh = _without(data, runs)
    # The ELF header and, after patchelf, the sections' table lie in memory too, where nobody reads them: as they were.
    kept = b"".join(data[a:z] for a, z in _kept(runs, len(data)))
    if memory(segments(fresh), kept) != memory(segments(data), data) or filled(fresh) != data:
        raise HolesError(f"{path.name}: would not be the same in memory")
    draft = path.with_name(f"{path.name}.part")
    draft.write_bytes(fresh)
    draft.chmod(path.stat().st_mode & 0o777)
    draft.replace(path)
    return len(data) - len(fresh)


def filled(data: bytes) -> bytes:
    """The file as it was before; itself where nothing was taken out."""
    if not data.endswith(MARK):
        return data
    length, count, _ = _NOTE.unpack(data[-_NOTE.size :])
    begin = len(data) - _NOTE.size - count * _RUN.size
    runs = [Run(*_RUN.unpack_from(data, begin + index * _RUN.size)) for index in range(count)]
    head_at = begin - length
    old = data[head_at:begin]  # every header that was rewritten, as it was
    whole, at = bytearray(), 0
    body = data[: _body_end(data, head_at)]
    for run in runs:
        take = run.start - len(whole)
        whole += body[at : at + take] + bytes(run.size)
        at += take
    whole += body[at:]
    for offset, text in _patches(old):
        whole[offset : offset + len(text)] = text
    return bytes(whole)


def _body_end(data: bytes, head_at: int) -> int:
    """Where the kept bytes of the old file end, and the new program headers begin."""
    (start,) = struct.unpack_from("<Q", data, 32)
    return int(start) - _padding_before(data, start, head_at)


def _padding_before(data: bytes, start: int, head_at: int) -> int:
    """The last field before the note's headers says how many bytes the table was moved for its alignment."""
    (padding,) = struct.unpack_from("<Q", data, head_at - 8)
    return int(padding)


def _pages(unused: Iterable[Run], loads: list[Segment]) -> list[Run]:
    """Long runs of whole pages, each inside one segment and clear of its first page, in order."""
    found = []
    for run in sorted(unused, key=lambda one: one.start):
        home = next((one for one in loads if one.offset <= run.start and run.end <= one.offset + one.in_file), None)
        if home is None or home.offset % PAGE != home.address % PAGE:
            continue
        start, end = -(-max(run.start, home.offset + 1) // PAGE) * PAGE, run.end // PAGE * PAGE
        if end - start >= SHORTEST:
            found.append(Run(start, end))
    if len(found) + len(loads) > MOST_SEGMENTS:
        raise HolesError(f"{len(found)} runs of zeroes, expected at most {MOST_SEGMENTS}")
    return found


def _cut(one: Segment, run: Run) -> bool:
    return run.start < one.offset + one.in_file and one.offset < run.end


def _without(data: bytes, runs: list[Run]) -> bytes:
    kept = b"".join(data[a:z] for a, z in _kept(runs, len(data)))
    padding = -len(kept) % 8
    programs = [piece for one in segments(data) if one.kind != _PHDR for piece in _split(one, runs)]
    table = b"".join(_PROGRAM.pack(*_fields(one)) for one in programs)
    fresh = bytearray(kept + bytes(padding) + table)
    patches = list(_headers(data, runs, len(kept) + padding, len(programs)))
    old = b""
    for offset, text in patches:
        old += struct.pack("<QQ", offset, len(text)) + data[offset : offset + len(text)]
        moved = _moved(offset, runs)
        fresh[moved : moved + len(text)] = text
    fresh += struct.pack("<Q", padding) + old + b"".join(_RUN.pack(run.start, run.end) for run in runs)
    return bytes(fresh + _NOTE.pack(len(old), len(runs), MARK))


def _patches(old: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(old):
        offset, length = struct.unpack_from("<QQ", old, at)
        yield offset, old[at + 16 : at + 16 + length]
        at += 16 + length


def _kept(runs: list[Run], end: int) -> Iterator[tuple[int, int]]:
    at = 0
    for run in runs:
        yield at, run.start
        at = run.end
    yield at, end


def _moved(offset: int, runs: list[Run]) -> int:
    """Where a byte of the old file lies in the new one."""
    return offset - sum(min(run.end, offset) - run.start for run in runs if run.start < offset)


def _split(one: Segment, runs: list[Run]) -> Iterator[Segment]:
    """One segment for each stretch of bytes that is left of it, with the zeroes behind it."""
    inner = [run for run in runs if one.offset <= run.start < one.offset + one.in_file] if one.kind == _LOAD else []
    at = one.offset
    for run in inner:
        yield _part(one, at, run.start, run.end, runs)
        at = run.end
    end = one.offset + one.in_file
    last = _part(one, at, end, one.offset + one.in_memory, runs)
    yield last if one.kind == _LOAD else replace(one, offset=_moved(one.offset, runs))


def _part(one: Segment, start: int, end: int, until: int, runs: list[Run]) -> Segment:
    """`until`: where it ends in memory, as an offset of the old file. All of a file's segments get one alignment."""
    address = one.address + start - one.offset
    return Segment(one.kind, one.flags, _moved(start, runs), address, address, end - start, until - start, PAGE)


def _fields(one: Segment) -> tuple[int, ...]:
    return (one.kind, one.flags, one.offset, one.address, one.physical, one.in_file, one.in_memory, one.align)


def _headers(data: bytes, runs: list[Run], table: int, count: int) -> Iterator[tuple[int, bytes]]:
    """(offset in the old file, new bytes) of the ELF header's fields and of each section's header."""
    (sections,) = struct.unpack_from("<Q", data, 40)
    size, number = struct.unpack_from("<HH", data, 58)
    yield 32, struct.pack("<QQ", table, _moved(sections, runs) if sections else 0)
    yield 56, struct.pack("<H", count)
    for index in range(number):
        at = sections + index * size
        fields = list(_SECTION.unpack_from(data, at))
        kind, start, length = fields[1], fields[4], fields[5]
        if kind != _NOBITS and any(run.start < start + length and start < run.end for run in runs):
            fields[1] = _NOBITS
        fields[4] = _moved(start, runs)
        yield at, _SECTION.pack(*fields)
