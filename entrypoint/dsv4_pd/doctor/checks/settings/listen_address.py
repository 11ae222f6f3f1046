"""The addresses and ports of the settings must be ones that this process may listen on at all."""

from __future__ import annotations

import errno

from dsv4_pd.doctor.base import Check, Finding, fail, ok
from dsv4_pd.errors import SettingsError
from dsv4_pd.plan.placement.members import Port
from dsv4_pd.plan.situation import Situation

_HOSTS = {"DSV4_PORT": "DSV4_HOST", "DSV4_OPS_PORT": "DSV4_OPS_HOST"}
_FOREIGN = (
    "set {setting} to an address of this machine (ip -brief address lists them), or to 0.0.0.0; in a container the "
    "host's own addresses are not there: publish the port on one instead (-p 192.0.2.1:{number}:{number})"
)
# errno -> (what is wrong, what to do, whether it is the address's fault or the port's)
_REASONS = {
    errno.EADDRNOTAVAIL: ("no address of this machine", _FOREIGN, True),
    errno.EINVAL: ("an address that needs an interface beside it", _FOREIGN, True),
    errno.EAFNOSUPPORT: ("IPv6, which this kernel does not have", "set {setting}=0.0.0.0, or enable IPv6", True),
    errno.EACCES: (
        "a port that this user may not listen on",
        "set {setting} to 1024 or higher, or allow lower ones (sysctl net.ipv4.ip_unprivileged_port_start=0)",
        False,
    ),
}
WRONG = frozenset(_REASONS)


def _run(s: Situation) -> Finding:
    refused = [(port, code) for port, code in s.busy_ports if code in WRONG]
    if not refused:
        return ok("all can be listened on")
    (first, code), *others = refused
    setting, read, remedy = _told(first, code)
    more = "".join(f"; {name}: {said}" for name, said, _ in (_told(*other) for other in others))
    return fail(f"{read}{more}", remedy, setting)


def _told(port: Port, code: int) -> tuple[str, str, str]:
    """(setting, what is wrong, what to do)."""
    why, remedy, address = _REASONS[code]
    setting = _HOSTS.get(port.setting, port.setting) if address else port.setting
    return setting, f"{port.host}:{port.number}: {why}", remedy.format(setting=setting, number=port.number)


CHECK = Check(
    name="listen-address",
    place=10,
    symptom="exit code 2 that names DSV4_HOST, DSV4_OPS_HOST or a port",
    why="Neither waiting nor ending another program helps: each start would fail after loading 146 GB.",
    source="bind(2); owncast#1398 (:: and ::1); socket(7) on ports below ip_unprivileged_port_start",
    run=_run,
    expected="addresses and ports that this process can listen on",
    fatal=True,
    error=SettingsError,
    gpu_only=False,
)
