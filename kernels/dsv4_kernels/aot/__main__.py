"""python -m dsv4_kernels.aot [CAPABILITY]: one JSON line a kernel. No GPU and no driver needed."""

from __future__ import annotations

import json
import sys

from dsv4_kernels.aot.compile import report
from dsv4_kernels.aot.specs import all_specs


def main() -> None:
    capability = int(sys.argv[1]) if len(sys.argv) > 1 else 120
    for spec in all_specs():
        print(json.dumps(report(spec, capability).as_json()), flush=True)


main()
