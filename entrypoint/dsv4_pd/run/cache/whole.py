"""Whether the bytes of a compiled file can be whole, from its own form. Pure: bytes in, words out.

It finds what was cut off or never written. Bytes that were changed and fit the form are found by their digest alone.
"""

from __future__ import annotations

import json
import pickletools
import struct
from collections.abc import Callable
from io import BytesIO

_NOBITS = 8
_EMPTY_IS_FINE = (".source", ".d")


def fault(name: str, data: bytes) -> str | None:
    """What is wrong with a file of this name; None when nothing can be seen.

    >>> fault("k.json", b'{"a": 1}'), fault("k.json", b'{"a"'), fault("k.ptx", b"")
    (None, 'no JSON', 'empty')
    """
    ending = name[name.rfind(".") :] if "." in name else ""
    if not data:
        return None if ending in _EMPTY_IS_FINE else "empty"
    check = _CHECKS.get(ending)
    if check is None and data[:2] == b"\x80\x04":  # Inductor names its pickles by their digest
        check = _pickle
    return check(data) if check else _zeroes(data)


def _zeroes(data: bytes) -> str | None:
    """What a machine leaves that lost its power after the size was written and before the bytes were."""
    return "all zeroes" if not data.strip(b"\0") else None


def elf(data: bytes) -> str | None:
    """Every part that the headers of a 64-bit ELF file name lies inside it; libraries and GPU code are such files."""
    if data[:6] != b"\x7fELF\x02\x01" or len(data) < 64:
        return "no ELF file"
    programs, sections = struct.unpack_from("<QQ", data, 32)
    program_size, program_count, section_size, section_count = struct.unpack_from("<HHHH", data, 54)
    end = max(programs + program_size * program_count, sections + section_size * section_count)
    if end > len(data):
        return f"cut off: {len(data)} bytes, its tables end at {end}"
    for index in range(section_count):
        kind, offset, size = struct.unpack_from("<4xI16xQQ", data, sections + index * section_size)
        if kind != _NOBITS and offset + size > len(data):
            return f"cut off: {len(data)} bytes, a section ends at {offset + size}"
    for index in range(program_count):
        offset, size = struct.unpack_from("<8xQ16xQ", data, programs + index * program_size)
        if offset + size > len(data):
            return f"cut off: {len(data)} bytes, a segment ends at {offset + size}"
    return None


def _json(data: bytes) -> str | None:
    try:
        json.loads(data)
    except ValueError:
        return "no JSON"
    return None


def _pickle(data: bytes) -> str | None:
    """Read as instructions, none of which is carried out."""
    try:
        for _ in pickletools.genops(BytesIO(data)):
            pass
    except Exception:  # what its reader raises for bytes that are no pickle is not documented
        return "no pickle"
    return None


_CHECKS: dict[str, Callable[[bytes], str | None]] = {
    ".so": elf,
    ".cubin": elf,
    ".o": elf,
    ".json": _json,
    ".best_config": _json,
    ".pkl": _pickle,
}
