"""What a member of several hosts publishes, so that a router can compare it with the others. Pure."""

from __future__ import annotations

import hashlib
import json

from dsv4_pd.plan.around.surroundings import Surroundings
from dsv4_pd.plan.flags import agreement
from dsv4_pd.plan.model.files import commit_of, is_folder
from dsv4_pd.plan.placement.place import Placement
from dsv4_pd.plan.programs.program import server_flags
from dsv4_pd.plan.shipped.profiles import Profile
from dsv4_pd.settings.layout import PAIR_ROLES
from dsv4_pd.settings.schema import Settings


def published(
    settings: Settings, profile: Profile, placement: Placement, around: Surroundings
) -> dict[str, str] | None:
    """Flag -> value of whatever must be the same on every host; None for an appliance on one, which checks its plan.

    Files are told by what is in them: the same model and template may lie elsewhere on another host. The engine's own
    choices (page size, KV type) are added by the guard, once the server tells them.
    """
    if settings.role not in PAIR_ROLES:
        return None
    (role,) = placement.roles
    told = agreement.shared(
        server_flags(settings, profile, placement, role, around.numa_policy, around.shape, around.source, around.config)
    )
    told["model-path"] = "a local folder" if is_folder(settings.model) else settings.model
    told["revision"] = commit_of(around.source) or _content(around)
    if settings.chat_template:
        told["chat-template"] = around.template or "unreadable"
    return told


def _content(around: Surroundings) -> str:
    """Of a model without a commit: its configuration and its size."""
    text = json.dumps(around.config, sort_keys=True, default=str)
    return f"{hashlib.sha256(text.encode()).hexdigest()[:12]} ({around.model.total_bytes or 0} bytes)"
