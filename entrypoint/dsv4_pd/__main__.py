"""`dsv4-pd`: the guard and the health probe start without the command line's libraries, because they must be cheap."""

from __future__ import annotations

import io
import signal
import sys


def main() -> int:
    """Dispatch; returns the exit code."""
    for stream in (sys.stdout, sys.stderr):  # a locale's own encoding may lack what a model's name or a frame has
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    command = sys.argv[1] if len(sys.argv) > 1 else "serve"
    if command == "health":
        from dsv4_pd.run.health import main as health

        return health(sys.argv[2:])
    if command == "guard":
        # Its default would end a guard that is asked to stop the appliance while it still imports.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        from dsv4_pd.run.guard.run import main as guard

        return guard(sys.argv[2:])
    if command == "download-phase":
        from dsv4_pd.run.download.phase import main as phase

        return phase(sys.argv[2:])
    from dsv4_pd.cli.app import main as cli

    return cli(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
