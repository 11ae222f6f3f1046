"""The router's flags -> our settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from dsv4_pd.plan.flags.command_line import Flag
from dsv4_pd.plan.migrate.accounts import Fate, Ledger
from dsv4_pd.plan.migrate.engine_map import take_key
from dsv4_pd.plan.programs import owned_flags

EXTRA = "DSV4_ROUTER_EXTRA_ARGS"
Row = Callable[[Ledger, str, Flag], None]


def _to(setting: str, aside: str = "") -> Row:
    return lambda ledger, unit, flag: ledger.put(unit, flag.shown, setting, flag.value, aside)


def _own(why: str = "the plan sets it") -> Row:
    return lambda ledger, unit, flag: ledger.note(unit, flag.shown, Fate.OWN, why)


def _none(why: str) -> Row:
    return lambda ledger, unit, flag: ledger.note(unit, flag.shown, Fate.NONE, why)


def _worker(role: str) -> Row:
    """Where a server is: its port, unless its own unit says it already."""

    def row(ledger: Ledger, unit: str, flag: Flag) -> None:
        address = urlsplit(flag.values[0] if flag.values else "")
        if address.hostname not in ("127.0.0.1", "localhost", "0.0.0.0", "::1"):
            ledger.note(unit, flag.shown, Fate.NONE, "one host by design; a server elsewhere is not part of it")
            return
        if address.port:
            ledger.settings.setdefault(f"DSV4_{role}_PORT", str(address.port))
        if role == "PREFILL" and len(flag.values) > 1 and flag.values[1].isdecimal():
            ledger.settings.setdefault("DSV4_BOOTSTRAP_PORT", flag.values[1])
        ledger.note(unit, flag.shown, Fate.SETTING, f"DSV4_LAYOUT, DSV4_{role}_PORT")

    return row


def _seconds(setting: str, aside: str = "") -> Row:
    return lambda ledger, unit, flag: ledger.put(unit, flag.shown, setting, f"{flag.value}s", aside)


def _bounded(setting: str) -> Row:
    """A count; what the router takes as "none" has no equivalent, because there is always a bound."""

    def row(ledger: Ledger, unit: str, flag: Flag) -> None:
        if flag.value.isdecimal() and int(flag.value) > 0:
            ledger.put(unit, flag.shown, setting, flag.value)
        else:
            ledger.note(unit, flag.shown, Fate.NONE, f"{setting} is a number from 1: a limit always stands")

    return row


def _level(ledger: Ledger, unit: str, flag: Flag) -> None:
    """The router's own levels are one below ours: at its info it writes two lines for each request."""
    level = {"warn": "warning"}.get(flag.value, flag.value)
    ledger.put(unit, flag.shown, "DSV4_LOG_LEVEL", level)


ROWS: Mapping[str, Row] = {
    "--pd-disaggregation": lambda ledger, unit, flag: ledger.note(unit, flag.shown, Fate.SETTING, "DSV4_LAYOUT"),
    "--prefill": _worker("PREFILL"),
    "--decode": _worker("DECODE"),
    "--worker-urls": lambda ledger, unit, flag: ledger.note(unit, flag.shown, Fate.SETTING, "DSV4_LAYOUT"),
    "--host": _to("DSV4_HOST"),
    "--port": _to("DSV4_PORT"),
    "--api-key": take_key,
    "--prometheus-port": _to("DSV4_ROUTER_METRICS_PORT"),
    "--prometheus-host": _own("the router's metrics stay on loopback; the ops port hands them on"),
    "--request-timeout-secs": _seconds("DSV4_REQUEST_TIMEOUT"),
    "--shutdown-grace-period-secs": _seconds("DSV4_DRAIN_TIMEOUT"),
    "--worker-startup-timeout-secs": _seconds("DSV4_START_TIMEOUT", "the router then waits ten minutes longer"),
    "--max-concurrent-requests": _bounded("DSV4_MAX_CONCURRENT_REQUESTS"),
    "--queue-size": _bounded("DSV4_QUEUE_SIZE"),
    "--log-level": _level,
    "--mini-lb": _none("a router for trials; the appliance has a real one"),
    "--model-path": _own("the servers know the model"),
    "--tokenizer-path": _own("the servers have it"),
    "--chat-template": _none("the router renders no prompts over HTTP; DSV4_CHAT_TEMPLATE is the servers'"),
    "--reasoning-parser": _own("the servers parse"),
    "--tool-call-parser": _own("the servers parse"),
    "--backend": _own("both routers find out by themselves"),
}


def account(ledger: Ledger, unit: str, flag: Flag, owned: Mapping[str, str]) -> None:
    """One flag."""
    if flag.secret:
        ledger.secrets.update(flag.values)
    if row := ROWS.get(flag.name):
        row(ledger, unit, flag)
    elif taken := owned_flags.taken(flag.name, owned):
        ledger.note(unit, flag.shown, Fate.OWN, f"the plan decides: {taken[0][1]}")
    elif not flag.known:
        ledger.note(unit, flag.shown, Fate.NONE, "sglang-router 0.3.2 has no such flag")
    elif flag.secret or flag.name in ("--oracle-connect-descriptor", "--postgres-db-url", "--redis-url"):
        ledger.secrets.update(flag.values)
        ledger.note(unit, flag.given, Fate.NONE, "a secret is not written into extra arguments; nothing is stored here")
    else:
        ledger.pass_on(unit, flag.shown, EXTRA, [flag.name, *flag.values])
