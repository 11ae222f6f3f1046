"""What a fatal log line is worth. Pure.

Whoever may send a request may make a server log almost any text. Before a server has served, no client reached it: a
line then decides, together with a `/ready` that is not YES or the end of the process. Of a server that served, lines
only explain what was seen otherwise, and only what happened soon after them:

* they never end the appliance, and never set its exit code;
* they never widen a restart from one server to both;
* they have a canary sent at once (`PathProof.due`), and its failures count as always;
* lines of the kind "explain" never do more than that, whenever they come;
* they shorten the wait for a server whose /ready says no and which computes nothing.
"""

from __future__ import annotations

from dsv4_pd.plan.guard.config import Limits
from dsv4_pd.run.guard.decide import silence
from dsv4_pd.run.guard.decide.states import Answer, Complaint, Observation, Remedy, RoleView

EXPLAINS_S = 30.0  # the engine ends itself within seconds of a fatal line; what fails later has another cause


def deciding(role: RoleView) -> Complaint | None:
    """The line of a server that has not served yet, once its end or a later /ready bears it out."""
    said = role.complaint
    if said is None or role.served or said.remedy is Remedy.EXPLAIN:
        return None
    return said if not role.up or role.refused >= said.at else None


def borne_out(role: RoleView, seen: Observation, limits: Limits) -> Complaint | None:
    """The line of a server that served, when a later /ready said no and nothing was computed since."""
    said = role.complaint
    if said is None or not role.served or not alive(said, seen.now) or said.remedy is Remedy.EXPLAIN:
        return None
    refused = role.ready is Answer.NO and role.refused > said.at
    return said if refused and silence.last_work(role, limits) < said.at else None


def alive(said: Complaint, when: float) -> bool:
    """Whether what happened then may be explained by the line."""
    return said.at <= when <= said.at + EXPLAINS_S


def explanation(role: RoleView, when: float) -> str:
    """The words to add to a cause that was seen at that time; empty when the log says nothing about it."""
    said = role.complaint
    told = "" if said is None or (role.served and not alive(said, when)) else f" ({said.cause})"
    at, note = role.gpu_note
    return told + (f" ({note})" if note and abs(when - at) <= EXPLAINS_S else "")
