"""What a container is of an appliance on several hosts (`DSV4_ROLE`), and which settings go with it (docs/adr/0304)."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any

from dsv4_pd.errors import Problem
from dsv4_pd.settings import interfaces, peers
from dsv4_pd.settings.schema import Settings, env_name

_ONLY_OF_SEVERAL = ("address", "net_devices", "member_key", "prefills", "decodes")
_KEY = "`openssl rand -hex 32` makes one; give every member and the router the same file"


def settle(settings: Settings, by_name: Mapping[str, str]) -> tuple[Settings, list[Problem]]:
    """With what follows from the role filled in, and what is wrong: its own address, the device of it, the ops port's
    address. An appliance on one host is left as it is.
    """
    if settings.role == "all":
        return settings, list(_idle(settings, by_name))
    problems = list(_layout(settings))
    if settings.role == "router":
        return settings, [
            *problems,
            *_lists(settings),
            *_keyless(settings, peers.hosts(settings.prefills, settings.decodes)),
        ]
    device = settings.net_devices[0] if settings.net_devices else ""
    address = settings.address or (interfaces.address_of(device) if device else None)
    if address is None:
        found = f"unset, and {device} has no IPv4 address" if device else "unset"
        remedy = f"set {env_name('address')}, or {env_name('net_devices')} to the interface that has it"
        return settings, [
            *problems,
            Problem(env_name("address"), found, "the address that other members reach", remedy),
        ]
    own: dict[str, Any] = {"address": address}
    if not settings.net_devices and (found_there := interfaces.interface_of(address)):
        own["net_devices"] = (found_there,)
    if "ops_host" not in settings.model_fields_set:
        own["ops_host"] = address  # the router's guard asks there
    return settings.model_copy(update=own), [*problems, *_keyless(settings, (address,))]


def _idle(settings: Settings, by_name: Mapping[str, str]) -> Iterator[Problem]:
    for field in _ONLY_OF_SEVERAL:
        if getattr(settings, field):
            name = env_name(field) + ("_FILE" if field == "member_key" else "")
            shown = "set" if field == "member_key" else repr(by_name.get(name))
            yield Problem(
                name, f"{shown}, and DSV4_ROLE is all", "unset on one host", f"unset {name}, or set DSV4_ROLE"
            )


def _layout(settings: Settings) -> Iterator[Problem]:
    if settings.layout is not None and settings.layout.kind != "pd":
        found = f"{settings.layout}, with DSV4_ROLE={settings.role}"
        yield Problem("DSV4_LAYOUT", found, "pd, as in pd:4+4", "set DSV4_LAYOUT=pd, or unset DSV4_ROLE")


def _lists(settings: Settings) -> Iterator[Problem]:
    for field, form in (("prefills", "10.0.0.1:30000:8998"), ("decodes", "10.0.0.2:30001")):
        if not getattr(settings, field):
            name = env_name(field)
            yield Problem(name, "unset, with DSV4_ROLE=router", "where the members are", f"set {name}={form}")


def _keyless(settings: Settings, hosts: tuple[str, ...]) -> Iterator[Problem]:
    """Whoever reaches a member without a key may use the model, and end what others asked for."""
    beyond = next((host for host in hosts if not _is_loopback(host)), None)
    if settings.member_key is None and beyond:
        name = env_name("member_key") + "_FILE"
        found = f"unset, with a member at {beyond}"
        yield Problem(name, found, "a file with the key between members", f"set {name}; {_KEY}")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
