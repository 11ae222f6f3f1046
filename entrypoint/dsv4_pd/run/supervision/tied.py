"""Become a module (supervisord) that ends when its parent (`serve`) ends, however that came about.

    python tied.py MODULE PARENT-PID FLAGS...

The kernel sends SIGKILL to it when the parent is gone. The guard then sees its pipe closed and ends the servers and
their shared memory; so a `serve` that was killed leaves nothing behind on a bare host either. Run by path, so that
`ps` shows the module; imports nothing of ours.
"""

import ctypes
import os
import runpy
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(argv: list[str]) -> None:
    """Tie the life of this process to its parent's, then become the module."""
    module, parent, *flags = argv
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(parent):
        sys.exit(f"the parent {parent} ended before {module} began")
    sys.argv = [module, *flags]
    sys.path.pop(0)  # our own folder, which the interpreter puts first for a script
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
