"""Every program is ready, and none had to be restarted."""

from __future__ import annotations

from typing import Any

from dsv4_pd.run.states import SERVING
from dsv4_pd.verify.base import Result, Subject, failed, passed


def check(subject: Subject) -> Result:
    """State, readiness and restarts from the guard."""
    status = subject.status
    roles = status.get("roles", {})
    restarts = {name: role.get("restarts", 0) for name, role in roles.items()}
    if status.get("state") not in SERVING:
        return failed(f"state {status.get('state')}: {status.get('reason')}", "read the reason, then the role's log")
    down = [f"{name} ({role.get('detail') or role.get('phase')})" for name, role in roles.items() if not role["ready"]]
    if down:
        return failed(
            f"not ready: {', '.join(down)}", "dsv4-pd status --watch shows whether it comes back", roles=roles
        )
    if stale := unproved(status.get("paths") or []):
        return failed(f"no request came through {', '.join(stale)}", "dsv4-pd status --watch shows whether one does")
    if sum(restarts.values()) > subject.options.allowed_restarts:
        ended = [f"{n} {c} times, last: {roles[n].get('last_exit')}" for n, c in restarts.items() if c]
        return failed(
            f"restarted since the start: {'; '.join(ended)}",
            "find the cause in its log (dsv4-pd support-bundle collects them); --allow-restarts N accepts it",
            restarts=restarts,
        )
    return passed(f"{status['state']}: {', '.join(roles)} ready, no restarts", restarts=restarts)


def unproved(paths: list[dict[str, Any]]) -> list[str]:
    """Routes among several on which the guard's last request failed, or none came through yet.

    >>> unproved([{"members": ["prefill-2", "decode"], "failures": 1, "proved_s_ago": 9.0}])
    ['prefill-2 to decode']
    """
    return [" to ".join(path["members"]) for path in paths if path["failures"] or path["proved_s_ago"] is None]
