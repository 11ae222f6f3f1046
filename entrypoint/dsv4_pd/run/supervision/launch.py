"""Start the engine or the router with the API key taken from a file.

    python launch.py MODULE [--api-key-file FILE] -- FLAGS...

Both take the key only as a flag, and `ps` shows argv to everyone. The flag is added to sys.argv here, which /proc
does not show, in the `--flag=value` form, because a key may begin with a dash. Runs in the program's own
environment, by path; imports nothing of ours.
"""

import runpy
import sys
from pathlib import Path


def main(argv: list[str]) -> None:
    """Put the key into sys.argv and become the module."""
    cut = argv.index("--")
    module, options, flags = argv[0], argv[1:cut], argv[cut + 1 :]
    if options[:1] == ["--api-key-file"]:
        flags = [*flags, f"--api-key={Path(options[1]).read_text(encoding='utf-8')}"]
    sys.argv = [module, *flags]
    sys.path.pop(0)  # our own folder, which the interpreter puts first for a script
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
