"""Which console suits the output: a live display on a terminal, plain text or JSON lines elsewhere."""

from __future__ import annotations

import sys

from dsv4_pd.plan.plan import Plan
from dsv4_pd.run.console.base import Console, JsonConsole, TextConsole


def choose(plan: Plan) -> Console:
    """By DSV4_LOG_FORMAT and by whether standard output is a terminal."""
    wanted = plan.settings.log_format
    if wanted == "json" or (wanted == "auto" and not sys.stdout.isatty()):
        return JsonConsole(plan)
    if sys.stdout.isatty():
        from dsv4_pd.run.console.live import LiveConsole  # rich costs memory that a container's log does not need

        return LiveConsole(plan)
    return TextConsole(plan)
