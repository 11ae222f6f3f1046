"""What every child process inherits from the operator's environment."""

from __future__ import annotations

from collections.abc import Mapping

from dsv4_pd.plan.paths import Paths
from dsv4_pd.settings.schema import FOREIGN

RUN_MARK = "DSV4_RUN_MARK"  # names the run that a process belongs to


def child_environment(environ: Mapping[str, str], paths: Paths) -> dict[str, str]:
    """What every child inherits: the operator's variables without our own settings, which may hold secrets."""
    kept = {k: v for k, v in environ.items() if not k.upper().startswith("DSV4_") or k in FOREIGN}
    return kept | {RUN_MARK: str(paths.run)}
