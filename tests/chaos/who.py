"""Whom a fault befalls: the servers of whatever layout runs."""

from __future__ import annotations

import random

from support.appliance import Appliance


def servers(appliance: Appliance) -> tuple[str, ...]:
    """Every server by name."""
    return tuple(appliance.members)


def several(appliance: Appliance) -> bool:
    """Whether there is more than one way to an answer."""
    return appliance.layout.kind == "replicas" or len(appliance.members) > 2


def has_link(appliance: Appliance) -> bool:
    """Whether KV caches are handed over."""
    return appliance.layout.kind == "pd"


def drawn(appliance: Appliance, choose: random.Random, *roles: str) -> list[str]:
    """A program for each of the names, all different: one of the role's members, or where the layout has no such role
    any server. Nothing is drawn where there is only one.
    """
    found: list[str] = []
    for role in roles:
        if role not in ("prefill", "decode"):
            found.append(role)
            continue
        able = [one.name for one in appliance.members.values() if one.role == role] or list(servers(appliance))
        left = [name for name in able if name not in found] or able
        found.append(left[0] if len(left) == 1 else choose.choice(left))
    return list(dict.fromkeys(found))
