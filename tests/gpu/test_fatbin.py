"""The fatbin tool on small libraries built here: what is kept, what is zeroed, and that a gap is noticed."""

from __future__ import annotations

import importlib.util
import re
import struct
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).resolve().parents[2] / "docker/steps/fatbin.py"


@pytest.fixture(scope="module")
def fatbin() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fatbin", TOOL)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def entry(kind: int, arch: int, payload: bytes, head: int = 64) -> bytes:
    fields = struct.pack("<HHIQ", kind, 0x101, head, len(payload)) + b"\0" * 12 + struct.pack("<I", arch)
    return fields.ljust(head, b"\0") + payload


def unit(*entries: bytes) -> bytes:
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def library(path: Path, **sections: bytes) -> Path:
    """A 64-bit ELF file with the given sections; `_` at the start of a keyword stands for a dot."""
    names = [re.sub("^_(?=[a-z])", ".", name) for name in sections] + [".shstrtab"]
    table = b"\0" + b"".join(name.encode() + b"\0" for name in names)
    data, rows, at = b"", [(0, 0, 0, 0, 0, 0)], 64
    for name, content in zip(names, [*sections.values(), table], strict=True):
        rows.append((table.index(name.encode() + b"\0"), 1, 0, 0, at, len(content)))
        data += content
        at += len(content)
    headers = b"".join(struct.pack("<IIQQQQIIQQ", *row, 0, 0, 8, 0) for row in rows)
    about = struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, at, 0, 64, 0, 0, 64, len(rows), len(rows) - 1)
    head = b"\x7fELF\x02\x01\x01" + b"\0" * 9 + about
    path.write_bytes(head + data + headers)
    return path


A, B, C = b"a" * 40, b"b" * 24, b"c" * 32


def test_only_the_card_s_machine_code_is_kept_byte_for_byte(fatbin: ModuleType, tmp_path: Path) -> None:
    content = unit(entry(2, 90, A), entry(2, 120, B), entry(1, 120, C))
    path = library(tmp_path / "x.so", _nv_fatbin=b"\0" * 8 + content)
    before = path.read_bytes()
    done = fatbin.strip(path, 90)
    after = path.read_bytes()
    assert len(after) == len(before)
    assert A in after and B not in after and C not in after
    assert after.replace(bytes(24), B, 1) != before  # the rest is elsewhere zeroed too
    assert dict(done.kept) == {"sm_90": 40} and dict(done.zeroed) == {"sm_120": 24, "ptx_120": 32}
    # Nothing but payload: headers of the dropped entries still say what they were.
    assert fatbin.listed(path).zeroed == done.zeroed


@pytest.mark.parametrize(
    ("card", "kept"),
    [
        (90, ["sm_90"]),
        (120, ["sm_120"]),
        (121, ["sm_120"]),  # runs its family's older code
        (89, ["sm_86"]),  # the nearest of its major version
        (80, ["sm_80"]),
        (100, ["ptx_90"]),  # no machine code of its own: the newest PTX that is not newer than the card
        (75, []),  # nothing here runs on it
    ],
)
def test_what_a_card_needs(fatbin: ModuleType, card: int, kept: list[str]) -> None:
    Entry = fatbin.Entry
    unit_ = [Entry(2, 80, 0, 1), Entry(2, 86, 1, 1), Entry(2, 90, 2, 1), Entry(2, 120, 3, 1),
             Entry(1, 80, 4, 1), Entry(1, 90, 5, 1), Entry(1, 120, 6, 1)]  # fmt: skip
    assert [e.name for e in fatbin.needed(unit_, card)] == kept


def test_all_variants_of_an_architecture_stay(fatbin: ModuleType) -> None:
    """sm_90 and sm_90a bear the same number, and either may hold the kernel that is launched."""
    both = [fatbin.Entry(2, 90, 0, 1), fatbin.Entry(2, 90, 1, 1), fatbin.Entry(1, 90, 2, 1)]
    assert fatbin.needed(both, 90) == both[:2]


def test_kinds_that_are_neither_code_nor_ptx_stay(fatbin: ModuleType) -> None:
    other = fatbin.Entry(8, 120, 0, 1)
    assert other in fatbin.needed([other, fatbin.Entry(2, 90, 1, 1)], 90)


def test_several_units_and_both_kinds_of_section(fatbin: ModuleType, tmp_path: Path) -> None:
    first = unit(entry(2, 90, A), entry(2, 100, B)) + b"\0" * 16 + unit(entry(1, 80, C), entry(2, 120, B))
    path = library(tmp_path / "x.so", _nv_fatbin=first, __nv_relfatbin=unit(entry(2, 120, A), entry(2, 90, B)))
    done = fatbin.strip(path, 90)
    assert done.units == 3
    assert dict(done.kept) == {"sm_90": 64, "ptx_80": 32}
    assert dict(done.zeroed) == {"sm_100": 24, "sm_120": 64}


def test_units_among_other_data_are_found_and_the_other_data_is_left_alone(fatbin: ModuleType, tmp_path: Path) -> None:
    """cuBLASLt's .cask_resource and cuFFT's .ldata: the magic number may also stand in a table, or in code."""
    table = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 10**9) + b"some table"
    inside = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 32) + b"\xff" * 32  # as long as a unit, and no entry
    content = table + b"\0" * 6 + unit(entry(2, 90, A), entry(2, 120, B)) + inside
    path = library(tmp_path / "x.so", _ldata=content, _cask_resource=unit(entry(2, 100, C)))
    done = fatbin.strip(path, 90)
    after = path.read_bytes()
    assert dict(done.kept) == {"sm_90": 40} and dict(done.zeroed) == {"sm_120": 24, "sm_100": 32}
    assert table in after and inside in after and A in after
    assert fatbin.missing(path, 90) == []


def test_a_gap_is_noticed(fatbin: ModuleType, tmp_path: Path) -> None:
    path = library(tmp_path / "x.so", _nv_fatbin=unit(entry(2, 90, A), entry(2, 120, B)))
    assert fatbin.missing(path, 90) == []
    assert fatbin.missing(path, 120) == []
    fatbin.strip(path, 90)
    assert fatbin.missing(path, 90) == []
    assert len(fatbin.missing(path, 120)) == 1 and "lacks sm_120" in fatbin.missing(path, 120)[0]


def test_twice_is_once(fatbin: ModuleType, tmp_path: Path) -> None:
    path = library(tmp_path / "x.so", _nv_fatbin=unit(entry(2, 90, A), entry(2, 120, B)))
    fatbin.strip(path, 90)
    once = path.read_bytes()
    fatbin.strip(path, 90)
    assert path.read_bytes() == once


@pytest.mark.parametrize("damage", ["entry", "unit", "not ELF"])
def test_what_it_does_not_know_it_refuses(fatbin: ModuleType, tmp_path: Path, damage: str) -> None:
    content = bytearray(unit(entry(2, 90, A)))
    if damage == "entry":
        content[16:18] = struct.pack("<H", 999)  # kind
    if damage == "unit":
        content[8:16] = struct.pack("<Q", 10**6)  # longer than its section
    path = library(tmp_path / "x.so", _nv_fatbin=bytes(content))
    if damage == "not ELF":
        path.write_bytes(b"#!/bin/sh\n")
    before = path.read_bytes()
    with pytest.raises(fatbin.FatbinError):
        fatbin.strip(path, 90)
    assert path.read_bytes() == before


def test_the_command_strips_lists_and_checks(tmp_path: Path) -> None:
    path = library(tmp_path / "x.so", _nv_fatbin=unit(entry(2, 90, A), entry(2, 120, B)))

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(TOOL), *words, str(path)], capture_output=True, text=True, check=False
        )

    assert "sm_120" in run("list").stdout
    assert run("strip", "90").returncode == 0
    assert run("check", "90").returncode == 0
    wrong = run("check", "120")
    assert wrong.returncode == 1 and "lacks sm_120" in wrong.stderr
