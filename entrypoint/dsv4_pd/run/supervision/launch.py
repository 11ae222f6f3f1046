"""Start the engine or the router with keys taken from files.

    python launch.py MODULE [--api-key-file FILE] [--control-key-file FILE] -- FLAGS...

Both take keys only as flags, and `ps` shows argv to everyone. The flags are added to sys.argv here, which /proc
does not show, in the `--flag=value` form, because a key may begin with a dash. Runs in the program's own
environment, by path; imports nothing of ours.
"""

import runpy
import sys
from pathlib import Path

# option -> the program's own flag, up to the key. The router's entry is id:name:role:key.
KEYS = {"--api-key-file": "--api-key=", "--control-key-file": "--control-plane-api-keys=guard:guard:admin:"}


def main(argv: list[str]) -> None:
    """Put the keys into sys.argv and become the module."""
    cut = argv.index("--")
    module, options, flags = argv[0], argv[1:cut], argv[cut + 1 :]
    pairs = zip(options[::2], options[1::2], strict=True)
    keys = [KEYS[option] + Path(file).read_text(encoding="utf-8") for option, file in pairs]
    sys.argv = [module, *flags, *keys]
    sys.path.pop(0)  # our own folder, which the interpreter puts first for a script
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
