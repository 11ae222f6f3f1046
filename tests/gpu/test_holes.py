"""Zeroes leave a library's file and nothing else: it loads, and what the loader makes of it is the same."""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

STEPS = Path(__file__).resolve().parents[2] / "docker/steps"
PAGE = 4096
pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
# Units in a read-only section as nvcc leaves them, functions that read what is around them, data and thread-local data.
SOURCE = """
__asm__(".section .nv_fatbin,\\"a\\"\\n.balign 16\\n.globl units\\nunits:\\n.incbin \\"units.bin\\"\\n.globl after\\n"
        "after:\\n.quad 4711\\n.previous");
extern const unsigned char units[];
extern const unsigned long after;
static __thread int counter = 7;
int table[4] = {1, 2, 3, 4};
const unsigned char *pointer = units;
int bss[5000];
unsigned long behind(void) { return after + table[2] + counter++ + bss[4999]; }
const unsigned char *at(void) { return pointer; }
"""


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, STEPS / f"{name}.py")
    assert spec and spec.loader
    found = importlib.util.module_from_spec(spec)
    sys.modules[name] = found
    spec.loader.exec_module(found)
    return found


holes, fatbin = module("holes"), module("fatbin")


def entry(kind: int, arch: int, size: int) -> bytes:
    head = struct.pack("<HHIQ", kind, 0x101, 64, size) + b"\0" * 12 + struct.pack("<I", arch)
    return head.ljust(64, b"\0") + bytes([arch]) * size


def unit(*entries: bytes) -> bytes:
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


UNITS = unit(entry(2, 90, 300_000), entry(2, 120, 5_000), entry(1, 120, 70_000)) + unit(
    entry(2, 80, 20_000), entry(2, 100, 200_001), entry(1, 90, 90_000)
)


@pytest.fixture
def library(tmp_path: Path) -> Path:
    (tmp_path / "units.bin").write_bytes(UNITS)
    (tmp_path / "x.c").write_text(SOURCE)
    path = tmp_path / "libx.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", path, "x.c"], cwd=tmp_path, check=True)
    return path


def loaded(path: Path) -> tuple[int, bytes]:
    """What a program that loads it sees: a function's result, and every byte of the units."""
    code = (
        "import ctypes, sys; x = ctypes.CDLL(sys.argv[1]); x.behind.restype = ctypes.c_ulong;"
        "x.at.restype = ctypes.c_void_p; n = x.behind(); sys.stdout.buffer.write(n.to_bytes(8, 'little'));"
        f"sys.stdout.buffer.write(ctypes.string_at(x.at(), {len(UNITS)}))"
    )
    out = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, check=True).stdout
    return int.from_bytes(out[:8], "little"), out[8:]


def test_the_file_is_shorter_and_a_program_sees_the_same(library: Path, tmp_path: Path) -> None:
    zeroed = tmp_path / "libz.so"
    shutil.copy(library, zeroed)
    fatbin.strip(zeroed, 120)
    before, mode = library.stat().st_size, library.stat().st_mode
    saved = fatbin.shrink(library, 120)
    assert library.stat().st_size == before - saved and saved > 500_000 - 4 * PAGE
    assert library.stat().st_mode == mode
    assert loaded(library) == loaded(zeroed) and loaded(library)[0] == 4711 + 3 + 7
    assert sorted(path.name for path in tmp_path.iterdir()) == ["libx.so", "libz.so", "units.bin", "x.c"]


def test_what_was_taken_out_can_be_put_back(library: Path, tmp_path: Path) -> None:
    zeroed = tmp_path / "libz.so"
    shutil.copy(library, zeroed)
    fatbin.strip(zeroed, 120)
    fatbin.shrink(library, 120)
    assert holes.filled(library.read_bytes()) == zeroed.read_bytes()
    assert holes.filled(zeroed.read_bytes()) == zeroed.read_bytes()


def test_the_list_and_the_check_read_it_as_before(library: Path) -> None:
    fatbin.shrink(library, 120)
    found = fatbin.listed(library)
    assert dict(found.kept) == {"sm_120": 5_000, "ptx_90": 90_000} and found.units == 2
    assert fatbin.missing(library, 120) == []
    assert [text.split(" lacks ")[1] for text in fatbin.missing(library, 100)] == ["sm_100"]


def test_other_programs_can_read_the_headers(library: Path) -> None:
    fatbin.shrink(library, 120)
    for option in ("-hlSW", "-dW", "-nW", "--dyn-syms"):
        done = subprocess.run(["readelf", option, library], capture_output=True, text=True, check=True)
        assert "rror" not in done.stderr and "arning" not in done.stderr, done.stderr
    assert subprocess.run(["ldd", library], capture_output=True, check=True).returncode == 0
    assert ctypes.CDLL(str(library)).behind() == 4711 + 3 + 7


def test_twice_is_once_and_nothing_to_do_touches_nothing(library: Path) -> None:
    fatbin.shrink(library, 120)
    after = library.read_bytes()
    with pytest.raises(holes.HolesError, match="before"):
        holes.punch(library, [holes.Run(0, 10)])
    assert library.read_bytes() == after
    other = library.with_name("liby.so")
    shutil.copy(shutil.which("gcc") or "", other)
    assert fatbin.shrink(other, 120) == 0


@pytest.mark.parametrize("what", ["bytes that are not zero", "no ELF file"])
def test_what_it_can_t_rewrite_stays_as_it_was(library: Path, what: str) -> None:
    if what == "no ELF file":
        library.write_bytes(b"#!/bin/sh\n")
    before = library.read_bytes()
    at = before.find(UNITS[:1000]) if what != "no ELF file" else 0
    with pytest.raises(holes.HolesError):
        holes.punch(library, [holes.Run(at, at + 200_000)])
    assert library.read_bytes() == before


def test_a_short_run_stays_and_a_segment_s_edge_is_kept(library: Path) -> None:
    """Below 64 KiB a run is not worth its two mappings; and pages that hold something else are never taken."""
    fatbin.strip(library, 120)
    data = library.read_bytes()
    start = data.find(UNITS[:16]) + 16 + 64
    assert holes.punch(library, [holes.Run(start, start + holes.SHORTEST - 1)]) == 0
    assert holes.punch(library, [holes.Run(start, start + 300_000)]) % PAGE > 0  # pages less the new tables
    assert holes.filled(library.read_bytes()) == data


def test_the_image_build_rewrites_every_library_once(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second layer finds what the first one rewrote, and opens none of it for writing."""
    prune = module("prune")
    monkeypatch.setattr(prune, "SMALLEST", 0)
    (tmp_path / "libscript.so").write_text("/* GNU ld script */")
    (tmp_path / "link.so").symlink_to(library.name)
    before = library.stat().st_size
    saved = prune.other_cards(120, tmp_path)
    assert saved.name == "GPU code that no sm_120 card loads" and saved.megabytes == round(
        (before - library.stat().st_size) / 1e6
    )
    library.chmod(0o444)
    stamp = library.stat().st_mtime_ns, library.stat().st_ino
    assert prune.other_cards(120, tmp_path).megabytes == 0
    assert (library.stat().st_mtime_ns, library.stat().st_ino) == stamp


def test_a_library_that_lacks_the_card_s_code_ends_the_build(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prune = module("prune")
    monkeypatch.setattr(prune, "SMALLEST", 0)
    fatbin.shrink(library, 90)
    with pytest.raises(SystemExit, match="lacks sm_120"):
        prune.other_cards(120, tmp_path)
