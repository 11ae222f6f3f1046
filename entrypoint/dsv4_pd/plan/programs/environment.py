"""What every child process inherits from the operator's environment."""

from __future__ import annotations

from collections.abc import Mapping

from dsv4_pd.plan.disk.run_mark import RUN_MARK
from dsv4_pd.settings import hub_environ
from dsv4_pd.settings.schema import FOREIGN


def child_environment(environ: Mapping[str, str], mark: str) -> dict[str, str]:
    """What every child inherits: the operator's variables without our own settings, which may hold secrets, and
    without blank ones of huggingface_hub and of the engine, which take blank for a value.

    >>> child_environment({"PATH": "/bin", "DSV4_API_KEY": "secret", "dsv4_port": "1", "HF_ENDPOINT": ""}, "a1")
    {'PATH': '/bin', 'DSV4_RUN_MARK': 'a1'}
    """
    blank = {*hub_environ.blanks(environ), *(k for k, v in environ.items() if k.startswith("SGLANG_") and not v)}
    kept = {k: v for k, v in environ.items() if k not in blank and (not k.upper().startswith("DSV4_") or k in FOREIGN)}
    return kept | ({RUN_MARK: mark} if mark else {})
