"""Make an engine layer smaller: delete what left-out.toml lists, strip symbol tables, compile the rest to bytecode.

    python3 prune.py LAYER SITE_PACKAGES listed|nothing

Run inside the RUN step that installed the files, so that they never become part of a layer. Writes what it saved
to SITE_PACKAGES/dsv4-left-out-LAYER.json.
"""

from __future__ import annotations

import argparse
import compileall
import json
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import Any

import fatbin
import holes

LIST = Path(__file__).with_name("left-out.toml")
SMALLEST = 1_000_000  # bytes of a library that may hold GPU code worth looking for
# Sources for compilers, and tests.
NOT_IMPORTED = re.compile(r"/(flashinfer/data|tilelang/3rdparty|torch/include|tests?|testing/_internal|benchmarks?)/")
STAND_IN = """raise ImportError(
    "{module} is left out of this image ({name}: {why}); "
    "build with --build-arg LEFT_OUT=nothing to keep it"
)
"""


@dataclass(frozen=True, slots=True)
class Saved:
    """One line of the table in docs/image.md."""

    name: str
    megabytes: int


def main() -> int:
    parser = argparse.ArgumentParser(description="Make an engine layer smaller.")
    parser.add_argument("layer", choices=("cuda", "engine"))
    parser.add_argument("site", type=Path)
    parser.add_argument("what", choices=("listed", "nothing"), help="delete what left-out.toml lists, or nothing")
    options = parser.parse_args()
    listed = tomllib.loads(LIST.read_text())
    entries = [entry for entry in listed["left_out"] if entry["layer"] == options.layer]
    saved = [] if options.what == "nothing" else [leave_out(entry, options.site) for entry in entries]
    saved.append(strip_symbols(listed["strip"][options.layer], options.site))
    if options.what == "listed":
        saved.append(other_cards(listed["card"], options.site))
    record = options.site / f"dsv4-left-out-{options.layer}.json"
    record.write_text(json.dumps([asdict(item) for item in saved], indent=1))
    for item in saved:
        print(f"left out {item.megabytes:5d} MB  {item.name}")
    # Times of files change when an image is copied; the source's hash does not.
    compileall.compile_dir(
        options.site, quiet=2, workers=0, rx=NOT_IMPORTED, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH
    )
    return 0


def leave_out(entry: dict[str, Any], site: Path) -> Saved:
    """Delete one entry's files; a pattern without a match is an error."""
    freed = 0
    for pattern in _patterns(entry, site):
        found = list(site.glob(pattern))
        if not found:
            sys.exit(f"left-out.toml: {entry['name']!r}: {pattern!r} matches nothing in {site}; correct the list")
        for path in found:
            freed += size(path)
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    if module := entry.get("module"):
        target = site / (module.replace(".", "/") + ".py")
        target.write_text(STAND_IN.format(module=module, name=entry["name"], why=entry["why"]))
    return Saved(entry["name"], round(freed / 1e6))


def _patterns(entry: dict[str, Any], site: Path) -> list[str]:
    patterns: list[str] = list(entry.get("paths", ()))
    for package in entry.get("packages", ()):
        patterns += [package, f"{package}-*.dist-info"]
        patterns += [f"{package}.libs"] if (site / f"{package}.libs").exists() else []
    return patterns


def strip_symbols(names: list[str], site: Path) -> Saved:
    """Drop symbol tables that only a debugger reads; what the loader needs (.dynsym) stays."""
    freed = 0
    for path in (site / name for name in names):
        before = path.stat().st_size
        subprocess.run(["strip", "--strip-unneeded", str(path)], check=True)
        freed += before - path.stat().st_size
    return Saved("symbol tables of shared libraries", round(freed / 1e6))


def other_cards(card: int, site: Path) -> Saved:
    """Take GPU code that only other cards load out of every library, and look whether all that this one needs is there.

    A library of the layer below is left as it is: opened for writing it would become part of this one.
    """
    freed = 0
    for path in sorted(site.rglob("*.so*")):
        if path.is_symlink() or not path.is_file() or path.stat().st_size < SMALLEST:
            continue
        data = path.read_bytes()
        if data[:4] != b"\x7fELF":
            continue
        if not data.endswith(holes.MARK):  # else the layer below did it
            freed += fatbin.shrink(path, card)
        if wrong := fatbin.missing(path, card):
            sys.exit("\n".join(wrong))
    return Saved(f"GPU code that no sm_{card} card loads", round(freed / 1e6))


def size(path: Path) -> int:
    if path.is_dir():
        return sum(item.stat().st_size for item in path.rglob("*") if item.is_file() and not item.is_symlink())
    return 0 if path.is_symlink() else path.stat().st_size


if __name__ == "__main__":
    sys.exit(main())
