"""python -m benchmarks --engine SITE/sglang --out FILE.jsonl [sparse_mla indexer indexer_topk mhc]: on an NVIDIA GPU.

With --sm120-lowering only our own kernels run, as Triton builds them for sm_120.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from dsv4_hooks.engine import ENGINE_VERSION

from benchmarks import indexer, indexer_topk, lowering, mhc, sparse_mla
from benchmarks.results import Results

OPS = {"sparse_mla": sparse_mla.bench, "indexer": indexer.bench, "indexer_topk": indexer_topk.bench, "mhc": mhc.bench}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ops", nargs="*", choices=[[], *OPS], metavar="OP", help=f"of {', '.join(OPS)}; default all")
    parser.add_argument("--engine", type=Path, required=True, help=f"the installed sglang folder ({ENGINE_VERSION})")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--run", default="new", help="name of this run in every line")
    parser.add_argument("--sm120-lowering", action="store_true")
    options = parser.parse_args()
    if options.sm120_lowering:
        lowering.install()
    results = Results(options.out, options.run, alone=options.sm120_lowering)
    generator = torch.Generator(device="cuda").manual_seed(1)
    for op in options.ops or OPS:
        OPS[op](results, generator, options.engine)


main()
