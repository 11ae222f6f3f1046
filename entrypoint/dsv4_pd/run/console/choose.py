"""Which console suits the output: a live display on a terminal, plain text or JSON lines elsewhere."""

from __future__ import annotations

from dsv4_pd.plan.plan import Plan
from dsv4_pd.run.console import outlet
from dsv4_pd.run.console.base import Console, JsonConsole, TextConsole


def choose(plan: Plan) -> Console:
    """By DSV4_LOG_FORMAT and by whether standard output is a terminal."""
    wanted, out = plan.settings.log_format, outlet.standard()
    if wanted == "json" or (wanted == "auto" and not out.isatty()):
        return JsonConsole(plan, out)
    if out.isatty():
        from dsv4_pd.run.console.live import LiveConsole  # rich costs memory that a container's log does not need

        return LiveConsole(plan, out)
    return TextConsole(plan, out)
