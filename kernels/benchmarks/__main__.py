"""python -m benchmarks --engine SITE/sglang --out FILE.jsonl [sparse_mla indexer mhc]: on an NVIDIA GPU."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from benchmarks import indexer, mhc, sparse_mla
from benchmarks.results import Results

OPS = {"sparse_mla": sparse_mla.bench, "indexer": indexer.bench, "mhc": mhc.bench}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ops", nargs="*", choices=[[], *OPS], metavar="OP", help=f"of {', '.join(OPS)}; default all")
    parser.add_argument("--engine", type=Path, required=True, help="the installed sglang folder (0.5.23)")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    results = Results(options.out)
    generator = torch.Generator(device="cuda").manual_seed(1)
    for op in options.ops or OPS:
        OPS[op](results, generator, options.engine)


main()
