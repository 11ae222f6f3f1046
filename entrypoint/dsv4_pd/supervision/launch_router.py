"""Start the router with its API key taken from a file: the router has no other way than argv, which `ps` shows.

    python launch_router.py MODULE [--api-key-file FILE] -- ROUTER-FLAGS...

Runs in the router's own environment, by path; imports nothing of ours.
"""

import runpy
import sys
from pathlib import Path


def main(argv: list[str]) -> None:
    """Put the key into sys.argv, which /proc does not show, and become the router."""
    cut = argv.index("--")
    module, options, flags = argv[0], argv[1:cut], argv[cut + 1 :]
    if options[:1] == ["--api-key-file"]:
        flags = [*flags, f"--api-key={Path(options[1]).read_text(encoding='utf-8')}"]
    sys.argv = [module, *flags]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
