"""The servers of an appliance: which layout is in force, and each member's name and ports. Pure.

Ports: the first member of a role has those that the settings name; each further one's are ten above the last one's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dsv4_pd.errors import Problem, SettingsError
from dsv4_pd.host.loopback import LOOPBACK
from dsv4_pd.plan.shipped.profiles import Profile
from dsv4_pd.settings import peers
from dsv4_pd.settings.layout import PAIR, SINGLE, Group, Layout, RoleName, member_name
from dsv4_pd.settings.schema import Settings, env_name

PORT_STEP = 10


@dataclass(frozen=True, slots=True)
class Port:
    """A TCP port a program listens on, and the setting that moves it."""

    setting: str
    host: str
    number: int


@dataclass(frozen=True, slots=True)
class Member:
    """One server of the layout. `index` counts from 1 within its role; 0 is the only one of its role."""

    role: RoleName
    index: int
    port: int
    nccl_port: int
    bootstrap_port: int | None  # of a prefill: where decodes find it

    @property
    def name(self) -> str:
        """What supervisord, the guard and every metric call it."""
        return member_name(self.role, self.index)


def layout_of(settings: Settings, profile: Profile) -> Layout:
    """The layout in force: what is asked for, else what the profile is for. Of an appliance on several hosts, what of
    it is here: one server of the role, or none.
    """
    found = settings.layout or (PAIR if "prefill" in profile.tensor_parallel else SINGLE)
    if settings.role == "all":
        return found
    sizes = {group.role: group.tensor_parallel for group in found.groups}
    here = (Group(settings.role, 1, sizes.get(settings.role)),) if settings.role != "router" else ()
    return Layout("pd", here)


def listens_on(settings: Settings) -> str:
    """Where the servers listen: loopback, or the address at which other hosts reach a member."""
    return LOOPBACK if settings.role == "all" else settings.address or LOOPBACK


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A member on another host, as a router is told of it."""

    role: RoleName
    index: int
    at: peers.Peer

    @property
    def name(self) -> str:
        """As if all of them were here."""
        return member_name(self.role, self.index)


def elsewhere(settings: Settings) -> tuple[Elsewhere, ...]:
    """The members that a router has."""
    lists: tuple[tuple[RoleName, tuple[str, ...]], ...] = (("prefill", settings.prefills), ("decode", settings.decodes))
    return tuple(
        Elsewhere(role, at if len(texts) > 1 else 0, peers.parse(text))
        for role, texts in (lists if settings.role == "router" else ())
        for at, text in enumerate(texts, 1)
    )


def member(settings: Settings, role: RoleName, index: int) -> Member:
    """A member with its ports."""
    shift = PORT_STEP * (max(1, index) - 1)
    decode = role == "decode"
    return Member(
        role,
        index,
        (settings.decode_port if decode else settings.prefill_port) + shift,
        (settings.decode_nccl_port if decode else settings.prefill_nccl_port) + shift,
        settings.bootstrap_port + shift if role == "prefill" else None,
    )


def ports(one: Member, host: str) -> tuple[Port, ...]:
    """What a member listens on."""
    prefix = "decode" if one.role == "decode" else "prefill"
    found = [
        Port(env_name(f"{prefix}_port"), host, one.port),
        Port(env_name(f"{prefix}_nccl_port"), LOOPBACK, one.nccl_port),
    ]
    if one.bootstrap_port is not None:
        found.append(Port(env_name("bootstrap_port"), host, one.bootstrap_port))
    return tuple(found)


def check_ports(owned: Sequence[tuple[str, Port]]) -> None:
    """Whether every port of the plan (program, port) is one program's alone. That two settings name the same port was
    refused before; here it is a further member's.

    Raises:
        SettingsError: with every port that two programs would have, or that there is none of.
    """
    taken: dict[int, tuple[str, Port]] = {}
    problems = []
    for name, port in owned:
        other, rival = taken.setdefault(port.number, (name, port))
        rule = f"a port of its own: further members' are {PORT_STEP} apart"
        if rival is not port:
            found = f"{port.number} for {name}, which {other} ({rival.setting}) has as well"
            problems.append(Problem(port.setting, found, rule, f"change {port.setting} or {rival.setting}"))
        elif port.number > 65535:
            found = f"{port.number} for {name}"
            problems.append(Problem(port.setting, found, "at most 65535", f"set a lower {port.setting}"))
    if problems:
        raise SettingsError(problems)
