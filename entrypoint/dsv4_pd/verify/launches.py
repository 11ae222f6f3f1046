"""More than one launch: restart the appliance and wait until it serves again; one boot does not prove correctness."""

from __future__ import annotations

import shlex
import subprocess
import time
from typing import Any

from dsv4_pd.client.ops import Ops
from dsv4_pd.errors import ApplianceError
from dsv4_pd.run.states import SERVING, WAY

_WAIT_S = 3600.0


def restart(ops: Ops, command: str) -> None:
    """Run the operator's command, then wait for a later start that serves.

    Raises:
        ApplianceError: the command failed, or nothing serves within an hour.
    """
    moment = ops.status()["heartbeat"]  # the appliance's own clock
    done = subprocess.run(shlex.split(command), capture_output=True, text=True, check=False)
    if done.returncode:
        raise ApplianceError(f"--restart {command!r} ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    begun = time.monotonic()
    while time.monotonic() - begun < _WAIT_S:
        try:
            status = ops.status()
            if status.get("state") in SERVING and _started(status) > moment:
                return
        except (ApplianceError, ValueError):
            pass  # it is down, which is what was asked for
        time.sleep(1.0)
    raise ApplianceError(f"after --restart {command!r} nothing served within {_WAIT_S:.0f} s; see dsv4-pd status")


def _started(status: dict[str, Any]) -> float:
    """When the first of its servers was started, by the appliance's clock.

    >>> _started({"heartbeat": 100.0, "roles": {"decode": {"elapsed_s": 30.0}, "router": {"elapsed_s": 99.0}}})
    70.0
    """
    ages = [role.get("elapsed_s") or 0.0 for name, role in status.get("roles", {}).items() if name not in WAY]
    return float(status["heartbeat"] - max(ages, default=0.0))
