"""python -m release VERSION [--rings FILE] [--image NAME] [--dry]: docs/releasing.md."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from release.check import Refused
from release.request import Request
from release.steps import run

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Exit 2 when it is refused, with one line for each reason."""
    parser = argparse.ArgumentParser(prog="make release", description=__doc__)
    parser.add_argument("version")
    parser.add_argument("--rings", type=Path, help="output of .ci/run at the release's commit, or its last lines")
    parser.add_argument("--image", help="the image to look at; default: dsv4-pd:VERSION")
    parser.add_argument("--dry", action="store_true", help="show everything, change nothing")
    given = parser.parse_args()
    image = given.image or f"dsv4-pd:{given.version}"
    try:
        run(Request(ROOT, given.version, image, given.rings, given.dry))
    except Refused as refused:
        for reason in refused.reasons:
            print(f"release: {reason}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
