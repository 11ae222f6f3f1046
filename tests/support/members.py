"""The servers of a layout with their ports, chosen so that further members' ports are free as well."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any

from dsv4_pd.plan.placement import members
from dsv4_pd.plan.placement.members import Member
from dsv4_pd.settings.layout import Layout
from dsv4_pd.settings.schema import PREFIX, Settings

from support.ports import free_ports


def by_name(layout: Layout, ports: Mapping[str, int]) -> dict[str, Member]:
    """Each member with the ports that the plan gives it; `ports` by setting."""
    given: dict[str, Any] = {name.removeprefix(PREFIX).lower(): port for name, port in ports.items()}
    settings = Settings(**given)
    return {one.name: one for one in (members.member(settings, role, at) for role, at in layout.members)}


def free_for(layout: Layout, names: tuple[str, ...]) -> dict[str, int]:
    """A port for each setting."""
    while not suits(layout, found := dict(zip(names, free_ports(len(names)), strict=True))):
        pass
    return found


def suits(layout: Layout, ports: Mapping[str, int]) -> bool:
    """Whether the ports of further members are free, and nobody else's."""
    further = [port for one in by_name(layout, ports).values() if one.index > 1 for port in of_servers({"": one})]
    alone = len({*ports.values(), *further}) == len(ports) + len(further)
    return alone and all(port < 65536 and free(port) for port in further)


def of_servers(found: Mapping[str, Member]) -> set[int]:
    """Every port that a server listens on."""
    every = [port for one in found.values() for port in (one.port, one.nccl_port, one.bootstrap_port)]
    return {port for port in every if port is not None}


def free(port: int) -> bool:
    """Whether nobody listens there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0
