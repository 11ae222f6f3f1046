"""python -m dsv4_kernels.aot [CAPABILITY [NAME]]: one JSON line a kernel whose name starts so. No GPU, no driver."""

from __future__ import annotations

import json
import sys

from dsv4_kernels import cards
from dsv4_kernels.aot.compile import report
from dsv4_kernels.aot.specs import all_specs


def main() -> None:
    capability = int(sys.argv[1]) if len(sys.argv) > 1 else 120
    prefix = sys.argv[2] if len(sys.argv) > 2 else ""
    for spec in all_specs(cards.of_capability(capability)):
        if not spec.name.startswith(prefix):
            continue
        print(json.dumps(report(spec, capability).as_json()), flush=True)


main()
