"""Pack what a GPU machine without a network needs: `make gpu-kit CARD=90 PART_MB=55`.

    python3 pack.py OUT --uv UV [--card 90] [--part-mb 55] [--cuda machine|kit] [--jit-cache FOLDER]

OUT then holds `parts/`: `setup.sh` and `app.tar.zst` (ours) and the engine's environment, cut into files of at most the
given size. Bring them all into one folder of the GPU machine, in any number of steps, and run `sh setup.sh` there.
"""

from __future__ import annotations

import argparse
import fnmatch
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
LISTS = HERE / "left-out.toml"
FATBIN = ROOT / "docker/steps/fatbin.py"
# Our own distributions, by the environment that they go into.
SOURCES = {"plugins": ("hooks", "kernels", "gate", "tests/gpu/engine"), "appliance": ("entrypoint",)}
OLD = "2020-01-01 00:00:00Z"
TARGET = ("--python-version", "3.12", "--python-platform", "x86_64-manylinux_2_39", "--only-binary", ":all:")
_REQUIREMENT = re.compile(r"^([a-z0-9][a-z0-9._-]*)==")


@dataclass(frozen=True, slots=True)
class Options:
    out: Path
    uv: Path
    card: int
    part_bytes: int
    cuda: str
    jit_cache: Path | None
    corpus: Path | None


def parse(argv: list[str]) -> Options:
    parser = argparse.ArgumentParser(description="Pack a kit for a GPU machine without a network.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--uv", type=Path, required=True, help="uv; pip of the same environment builds our wheels")
    parser.add_argument("--card", type=int, default=90, help="compute capability without its dot")
    parser.add_argument("--part-mb", type=int, default=55, help="largest file, in MB")
    parser.add_argument("--cuda", choices=("machine", "kit"), default="machine", help="whose CUDA libraries serve")
    parser.add_argument("--jit-cache", type=Path, help="jit-cache.tar.zst.* of a machine with the same compilers")
    parser.add_argument("--corpus", type=Path, help="what gpu.model.corpus wrote: the ring's texts")
    given = parser.parse_args(argv)
    size = given.part_mb * 10**6
    out, uv = given.out.resolve(), given.uv.absolute()
    return Options(out, uv, given.card, size, given.cuda, given.jit_cache, given.corpus)


def chosen(lock: str, left_out: list[str]) -> str:
    """The blocks of a hashed lock whose distribution no pattern names.

    >>> chosen("a==1 \\\\\\n    --hash=sha256:00\\nnvidia-cuda-x==2 \\\\\\n    --hash=sha256:11\\n", ["nvidia-cuda-*"])
    'a==1 \\\\\\n    --hash=sha256:00\\n'
    """
    kept, keep = [], True
    for line in lock.splitlines(keepends=True):
        if found := _REQUIREMENT.match(line):
            keep = not any(fnmatch.fnmatch(found[1], pattern) for pattern in left_out)
        if keep:
            kept.append(line)
    return "".join(kept)


def run(*command: str | Path, **more: Any) -> None:
    subprocess.run([str(word) for word in command], check=True, **more)


def install(options: Options, target: Path, *what: str | Path) -> None:
    run(options.uv, "pip", "install", "-q", "--no-deps", *TARGET, "--target", target, *what)


def engine(options: Options, lists: dict[str, Any]) -> Path:
    """The engine's site-packages for the card, without what the lists name."""
    site = options.out / "engine"
    left = lists["packages"] + (lists["machine"] if options.cuda == "machine" else [])
    lock = options.out / "engine.lock"
    lock.write_text(chosen((ROOT / "docker/engine.lock").read_text(), left))
    shutil.rmtree(site, ignore_errors=True)
    install(options, site, "--require-hashes", "-r", lock)
    paths = [p for p in lists["paths"] if p != "nvidia/cu13" or options.cuda == "machine"]
    remove(site, [*paths, *lists["only"].get(str(options.card), [])])
    for path in matches(site, lists["symbols"]["paths"]):
        run("strip", "--strip-unneeded", path)
    wanted = lists["fatbins"]["paths"] + (lists["fatbins"]["cuda"] if options.cuda == "kit" else [])
    libraries = matches(site, wanted)
    run(sys.executable, FATBIN, "strip", str(options.card), *libraries)
    run(sys.executable, FATBIN, "check", str(options.card), *libraries)
    return site


def matches(site: Path, patterns: list[str]) -> list[Path]:
    found = {pattern: sorted(site.glob(pattern)) for pattern in patterns}
    if absent := [pattern for pattern, paths in found.items() if not paths]:
        raise SystemExit(f"{LISTS.name}: {absent} match nothing in the engine's environment; correct the list")
    return [path for paths in found.values() for path in paths]


def remove(site: Path, patterns: list[str]) -> None:
    doomed = [path for pattern in patterns for path in site.glob(pattern)]
    doomed += [path for path in site.rglob("*.a") if path.stat().st_size > 1e6]
    for path in doomed:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)


def appliance(options: Options) -> Path:
    """Our own part: plugins, control plane and routers in their environments, profiles, tokenizer, the ring itself."""
    app, wheels = options.out / "app", options.out / "wheels"
    for folder in (app, wheels):
        shutil.rmtree(folder, ignore_errors=True)
    for part, names in SOURCES.items():
        for name in names:
            build(options, ROOT / name, wheels / part)
    for name in ("appliance", "router", "smg"):
        site = app / "venvs" / name / "lib/python3.12/site-packages"
        install(options, site, "--require-hashes", "-r", ROOT / f"docker/{name}.lock")
    install(options, app / "venvs/appliance/lib/python3.12/site-packages", *(wheels / "appliance").glob("*.whl"))
    install(options, app / "plugins", *(wheels / "plugins").glob("*.whl"))
    share = app / "venvs/appliance/share/dsv4-pd"
    shutil.copytree(ROOT / "config", share / "config")
    shutil.copytree(ROOT / "demo/model", share / "demo/model")
    for profile in (HERE.parent / "profiles").glob("*.toml"):
        shutil.copy(profile, share / "config/profiles")
    ring = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", "records", "test_*")
    shutil.copytree(HERE.parent, app / "ring/gpu", ignore=ring)
    (app / "ring/gpu/steps").mkdir()
    for name in ("fatbin.py", "holes.py"):
        shutil.copy(FATBIN.with_name(name), app / "ring/gpu/steps" / name)
    if options.corpus:
        shutil.copy(options.corpus, app / "ring/corpus.npz")
    return app


def build(options: Options, source: Path, wheels: Path) -> None:
    """A wheel of one of our distributions; from a copy, so that the source tree stays clean."""
    copy = options.out / "source"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__", "benchmarks"))
    pip: list[str | Path] = [
        options.uv.parent / "python",
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
    ]
    run(*pip, "-w", wheels, copy)


def tar(folder: Path) -> list[str]:
    """The command; all times are one and old: ninja recompiles what is younger than a cached library."""
    same = ("--sort=name", "--owner=0", "--group=0", f"--mtime={OLD}")
    return ["tar", "-C", str(folder), "--exclude=__pycache__", *same, "-cf", "-", "."]


def archive(folder: Path, target: Path) -> None:
    """One zstd stream; the window of 128 MB finds what two libraries share."""
    packed: list[str | Path] = ["zstd", "-q", "-T0", "-9", "--long=27", "-f", "-o", target]
    with subprocess.Popen(tar(folder), stdout=subprocess.PIPE) as reading:
        run(*packed, stdin=reading.stdout)
    if reading.returncode:
        raise SystemExit(f"tar of {folder}: exit status {reading.returncode}")


def cut(file: Path, size: int, parts: Path) -> None:
    """The file in numbered pieces of at most `size` bytes."""
    with file.open("rb") as whole:
        for number in range(1000):
            piece = whole.read(size)
            if not piece:
                return
            (parts / f"{file.name}.{number:03d}").write_bytes(piece)


def main() -> int:
    options = parse(sys.argv[1:])
    lists = tomllib.loads(LISTS.read_text())
    parts = options.out / "parts"
    shutil.rmtree(parts, ignore_errors=True)
    parts.mkdir(parents=True)
    site = engine(options, lists)
    archive(site, options.out / "engine.tar.zst")
    cut(options.out / "engine.tar.zst", options.part_bytes, parts)
    app = appliance(options)
    archive(app, options.out / "app.tar.zst")
    cut(options.out / "app.tar.zst", options.part_bytes, parts)
    # A machine without zstd unpacks with this Python module.
    shutil.copytree(site / "zstandard", parts / "zstandard", ignore=shutil.ignore_patterns("_cffi*", "__pycache__"))
    run("strip", "--strip-unneeded", *(parts / "zstandard").glob("*.so"))
    for name in ("setup.sh", "unpack.py"):
        shutil.copy(HERE / name, parts)
    for piece in sorted(options.jit_cache.glob("jit-cache.tar.zst.*")) if options.jit_cache else ():
        shutil.copy(piece, parts)
    for path in sorted(parts.iterdir()):
        print(f"{size(path) / 1e6:7.1f} MB  {path.name}")
    return 0


def size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*")) if path.is_dir() else path.stat().st_size


if __name__ == "__main__":
    sys.exit(main())
