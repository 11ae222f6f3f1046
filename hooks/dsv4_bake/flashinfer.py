"""Compile the FlashInfer modules that this model uses for sm_120, without a card, into FlashInfer's own package.

    python -m dsv4_bake.flashinfer BUILD_FOLDER [--only NAME ...] [--long] [--find]

Modules in `flashinfer/data/aot` are loaded as they are: no ninja, no compiler, no copy in a cache folder. (From its
cache folder FlashInfer runs ninja at each start, which builds again when a header is younger than the library.)
"""

from __future__ import annotations

import argparse
import os
import shutil
import time
from pathlib import Path
from typing import Any

from dsv4_bake import listed

ARCHITECTURES = "12.0f"


def main() -> int:
    parser = argparse.ArgumentParser(description="Compile FlashInfer modules for sm_120.")
    parser.add_argument("build", type=Path)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--long", action="store_true", help="also what takes hours on two cores: BAKE=full")
    parser.add_argument("--find", action="store_true", help="build nothing; exit 1 where one is not packaged")
    options = parser.parse_args()
    os.environ["FLASHINFER_CUDA_ARCH_LIST"] = ARCHITECTURES
    os.environ["FLASHINFER_WORKSPACE_BASE"] = str(options.build)
    begun = time.monotonic()
    rows = listed.rows(listed.FILE, "flashinfer", options.only, long=options.long)
    specs = [listed.resolve(row["call"])(*row["arguments"]) for row in rows]
    wrong = [(row["kernel"], spec.name) for row, spec in zip(rows, specs, strict=True) if row["kernel"] != spec.name]
    if wrong:
        raise SystemExit(f"compiled.toml: found other names {wrong}, expected those of FlashInfer's own specs")
    if options.find:
        absent = [spec.name for spec in specs if not spec.is_aot]
        print(f"flashinfer: {len(specs) - len(absent)} of {len(specs)} modules packaged", *absent)
        return int(bool(absent))
    size = sum(path.stat().st_size for path in built(specs)) / 1e6
    print(f"flashinfer: {len(specs)} modules in {time.monotonic() - begun:.0f} s, {size:.1f} MB")
    return 0


def built(specs: list[Any]) -> list[Path]:
    """Where the packaged libraries are; ninja builds all of them at once, as many steps as there are cores."""
    from flashinfer.jit import env
    from flashinfer.jit.core import build_jit_specs

    missing = [spec for spec in specs if not target(env, spec).exists()]
    build_jit_specs(missing, verbose=False, skip_prebuilt=False)
    for spec in missing:
        target(env, spec).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(spec.jit_library_path, target(env, spec))
    return [target(env, spec) for spec in specs]


def target(env: Any, spec: Any) -> Path:
    folder = Path(str(env.FLASHINFER_AOT_DIR)) / str(spec.name)
    return folder / f"{spec.name}.so"


if __name__ == "__main__":
    raise SystemExit(main())
