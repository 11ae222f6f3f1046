"""The terminal: progress per role while the appliance starts, then the banner and the programs' lines."""

from __future__ import annotations

import time
from typing import IO, Any, Self

from rich.console import Console as Terminal
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from dsv4_pd.plan.plan import Plan
from dsv4_pd.run.console.base import Console
from dsv4_pd.run.states import SERVING, TONES, StateName
from dsv4_pd.run.supervision.daemon import RunEnd

_STYLES = {"busy": "cyan", "good": "bold green", "warn": "yellow", "bad": "bold red"}


def style(state: str) -> str:
    """How the state looks; one that this version does not know is like one on its way."""
    return _STYLES[TONES[StateName(state)]] if state in StateName.__members__ else _STYLES["busy"]


class LiveConsole(Console):
    """A table that redraws in place until READY; log lines are held back until then."""

    def __init__(self, plan: Plan, out: IO[str] | None = None) -> None:
        super().__init__(plan, out)
        if self.threshold == "info":
            self.threshold = "warning"  # a line for every batch would push the banner off the screen
        self._terminal = Terminal(file=self.out, highlight=False)
        self._live = Live(console=self._terminal, auto_refresh=False, transient=True)
        self._drawn = 0.0

    def __enter__(self) -> Self:
        self._live.start()
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        self._live.stop()
        super().__exit__(*error)

    def tick(self) -> None:
        """Redraw at most four times a second while starting."""
        super().tick()
        starting = self.health.get("state", "BOOTING") not in SERVING
        if starting and self._live.is_started and time.monotonic() - self._drawn > 0.25:
            self._drawn = time.monotonic()
            self._live.update(progress_table(self.health), refresh=True)
        if not starting and self._live.is_started:
            self._live.stop()

    def log_line(self, role: str, line: str) -> None:
        """Programs' lines appear once the appliance has served; its own lines always do."""
        if role in ("dsv4-pd", "last lines") or not self._live.is_started:
            self._terminal.print(Text(f"{time.strftime('%H:%M:%S')} {role:<8}│ ", style="dim"), Text(line), sep="")

    def block(self, text: str) -> None:
        """The banner, undecorated so that its curl line can be copied."""
        self._live.stop()
        self._terminal.print(Text(text), soft_wrap=True)

    def verdict(self, verdict: RunEnd) -> None:
        """Ends the display first."""
        self._live.stop()
        super().verdict(verdict)


def progress_table(health: dict[str, Any]) -> Table:
    """One row a role: phase, bar, percent where known, elapsed, what the last start took."""
    state = str(health.get("state", "BOOTING"))
    table = Table(
        box=None,
        pad_edge=False,
        title=Text(f"{state}  {health.get('reason', '')}", style=style(state)),
        title_justify="left",
    )
    for column in ("role", "phase", "", "%", "elapsed", "left"):
        table.add_column(column)
    roles = dict(health.get("roles", {}))
    if download := health.get("download"):
        roles["model"] = {**download, "elapsed_s": max(0.0, health["heartbeat"] - health["since"])}
    for name, role in roles.items():
        percent = role.get("percent")
        done = percent if percent is not None else _share(role)
        bar = ProgressBar(total=100, completed=done or 0, width=24, pulse=done is None)
        table.add_row(
            name,
            str(role.get("phase", "")),
            bar,
            "" if percent is None else f"{percent:.0f}",
            _clock(role.get("elapsed_s")),
            _clock(role.get("eta_s")),
        )
    return table


def _share(role: dict[str, Any]) -> float | None:
    """Elapsed time against the last start's, when that is known."""
    elapsed, left = role.get("elapsed_s"), role.get("eta_s")
    if role.get("phase") == "ready":
        return 100.0
    if not elapsed or left is None:
        return None
    return min(99.0, 100.0 * float(elapsed / (elapsed + max(left, 0.0))))


def _clock(seconds: float | None) -> str:
    """
    >>> _clock(75)
    '1:15'
    """
    return "" if seconds is None else f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
