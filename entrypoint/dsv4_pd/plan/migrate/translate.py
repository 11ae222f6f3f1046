"""Units -> settings, with an account of every part. Pure but for the scripts and files that the units name."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dsv4_pd.errors import Problem, SettingsError
from dsv4_pd.plan.disk.paths import profiles_dir
from dsv4_pd.plan.flags import command_line
from dsv4_pd.plan.migrate import command, engine_map, router_map, variables
from dsv4_pd.plan.migrate.accounts import Account, Fate, Ledger
from dsv4_pd.plan.migrate.command import Started
from dsv4_pd.plan.migrate.defaults import is_default
from dsv4_pd.plan.migrate.engine_map import Server
from dsv4_pd.plan.migrate.unit import Unit
from dsv4_pd.plan.programs import owned_flags
from dsv4_pd.plan.shipped import profiles
from dsv4_pd.plan.survey import read_settings
from dsv4_pd.settings.layout import PAIR_ROLES, ROLES
from dsv4_pd.settings.schema import Settings, env_name

MODELS = "/models/"  # where compose.yaml mounts MODELS_DIR
ROUTER_PORT = "30000"  # of a router that is given none, with the engine's own default beside it
# Of a server that is given none: what the engine takes then, and that the product's default is another.
_UNSAID = {
    "--context-length": ("DSV4_CONTEXT_LENGTH", "the engine took the model's own, 1048576 for DeepSeek-V4-Flash"),
    "--mem-fraction-static": ("DSV4_{ROLE}_MEM_FRACTION", "the engine reckoned one from the card"),
    "--max-running-requests": ("DSV4_MAX_RUNNING_REQUESTS", "the engine took 256"),
}


@dataclass(frozen=True, slots=True)
class Migration:
    """What was found. `settings` and `kept` make the .env; `key` is written to a file and nowhere else."""

    settings: Mapping[str, str]
    kept: Mapping[str, str]
    accounts: tuple[Account, ...]
    notes: tuple[str, ...]
    secrets: frozenset[str]
    key: str | None = None
    key_origin: str = ""
    problems: tuple[Problem, ...] = ()


def translate(units: Sequence[Unit], given: Mapping[str, str], root: Path) -> Migration:
    """Everything that the units say; `given`: variables of environment files that stand beside them.

    Raises:
        SettingsError: no unit starts anything of SGLang.
    """
    ledger = Ledger()
    found: list[Started] = []
    for unit in units:
        programs, remarks = command.started(replace(unit, environment={**given, **unit.environment}), root)
        found += programs
        ledger.notes += [*unit.remarks, *remarks]
    if not found:
        names = ", ".join(unit.name for unit in units)
        expected = "units whose ExecStart runs sglang.launch_server or a router of it"
        raise SettingsError([Problem(names or "UNIT", "no program of SGLang", expected, "give the units that serve")])
    servers, strays = _servers(found)
    ledger.notes += strays
    _account(ledger, found, servers)
    for unit in units:
        variables.account_directives(ledger, unit)
    _separate_ports(ledger)
    _places(ledger)
    return _finished(ledger)


def _servers(found: Sequence[Started]) -> tuple[list[Server], list[str]]:
    made, strays = [], []
    for one in found:
        if one.kind != "engine":
            continue
        read, stray = command_line.read(one.words, "engine")
        mode = next((flag.value for flag in reversed(read) if flag.name == "--disaggregation-mode"), "null")
        made.append(Server(one.unit, mode if mode in PAIR_ROLES else "single", tuple(read), one.environment))
        strays += [f"{one.unit}: the word {word!r} belongs to no flag" for word in stray]
    return made, strays


def _account(ledger: Ledger, found: Sequence[Started], servers: Sequence[Server]) -> None:
    known = profiles.read_all(profiles_dir())
    routers = [one for one in found if one.kind == "router"]
    pair = [server for server in servers if server.role != "single"]
    for server in servers if pair else ():
        if server.role == "single":
            why = "a whole server beside the pair: DSV4_LAYOUT=single is that fallback, with the same settings"
            for flag in server.flags:
                ledger.note(server.unit, flag.shown, Fate.NONE, why)
                ledger.secrets |= set(flag.values) if flag.secret else set()
    serving = sorted(pair or servers, key=lambda server: server.role)  # decode first: its limits count
    ledger.chunk = next((s.get("--chunked-prefill-size") or None for s in serving if s.role != "decode"), None)
    _layout(ledger, serving)
    owned = owned_flags.engine_owned(known)
    alone = not routers and not pair
    for server in serving:
        for flag in server.flags:
            if alone and flag.name in ("--port", "--host"):
                name = f"DSV4_{flag.name[2:].upper()}"
                ledger.put(server.unit, flag.shown, name, flag.value, "clients reach it there")
            else:
                engine_map.account(ledger, server, flag, owned)
        _unsaid(ledger, server)
    for one in routers:
        _router(ledger, one)
    for one in found:
        variables.account(ledger, one.unit, one.environment, one.origins)
        variables.account_wrappers(ledger, one.unit, one.wrappers)


def _router(ledger: Ledger, one: Started) -> None:
    read, stray = command_line.read(one.words, "sglang-router")
    ledger.notes += [f"{one.unit}: the word {word!r} belongs to no flag" for word in stray]
    owned = owned_flags.router_owned()
    for flag in read:
        router_map.account(ledger, one.unit, flag, owned)
    if not any(flag.name == "--port" for flag in read):
        ledger.settings.setdefault("DSV4_PORT", ROUTER_PORT)
        ledger.notes.append(f"{one.unit}: no --port, so clients know the router's own default, {ROUTER_PORT}")


def _layout(ledger: Ledger, serving: Sequence[Server]) -> None:
    """How many servers of how many cards, and which: a pair needs both roles, and as many cards in each."""
    sizes = {role: [int(s.get("--tp-size", "1") or 1) for s in serving if s.role == role] for role in ROLES}
    every = {size for found in sizes.values() for size in found}
    if len(every) > 1:
        ledger.notes.append(f"the servers have {sorted(every)} GPUs each; DSV4_LAYOUT has as many for each: choose one")
    elif sizes["prefill"] and sizes["decode"]:
        pair = [(len(sizes[role]), sizes[role][0]) for role in PAIR_ROLES]
        parts = [f"{count}x{size}" if count > 1 else f"{size}" for count, size in pair]
        ledger.settings["DSV4_LAYOUT"] = f"pd:{'+'.join(parts)}"
    elif sizes["single"]:
        count, size = len(sizes["single"]), sizes["single"][0]
        ledger.settings["DSV4_LAYOUT"] = f"replicas:{count}x{size}" if count > 1 else f"single:{size}"
    elif serving:
        ledger.notes.append(f"only units of {serving[0].role} were given: give the other role's too, and the router's")
    for role in ROLES:
        cards = [card for server in serving if server.role == role for card in _cards(server)]
        if cards:
            ledger.settings[f"DSV4_{'DECODE' if role == 'decode' else 'PREFILL'}_GPUS"] = ",".join(cards)


def _cards(server: Server) -> list[str]:
    """The cards that a server takes: from the base on, of those that its environment shows it."""
    size, base = int(server.get("--tp-size", "1") or 1), int(server.get("--base-gpu-id", "0") or 0)
    step = int(server.get("--gpu-id-step", "1") or 1)
    shown = [card.strip() for card in server.environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if card.strip()]
    wanted = range(base, base + size * step, step)
    if not shown:
        return [str(number) for number in wanted]
    return [shown[number] for number in wanted if number < len(shown)]


def _unsaid(ledger: Ledger, server: Server) -> None:
    """What the unit leaves to the engine, where the product's own default is another value."""
    for flag, (setting, took) in _UNSAID.items():
        if server.get(flag) or (flag == "--max-running-requests" and server.get("--cuda-graph-max-bs-decode")):
            continue
        name = setting.replace("{ROLE}", "DECODE" if server.role == "decode" else "PREFILL")
        if name not in ledger.settings:
            ledger.notes.append(f"{server.unit}: no {flag}, so {took}; set {name} unless its default is what you want")


def _separate_ports(ledger: Ledger) -> None:
    """A port that a unit gives to one program may be another's default here: that one moves."""
    fields = [name for name in Settings.model_fields if name.endswith("port")]
    defaults = {env_name(name): str(Settings.model_fields[name].default) for name in fields}
    ports = defaults | {name: ledger.settings[name] for name in defaults if name in ledger.settings}
    for name, port in ports.items():
        others = [other for other, found in ports.items() if other != name and found == port]
        if not others or name in ledger.settings:
            continue
        free = next(number for number in range(30002, 65535) if str(number) not in ports.values())
        ports[name] = ledger.settings[name] = str(free)
        ledger.notes.append(f"{name}={free}: its default, {port}, is {others[0]} here")


def _places(ledger: Ledger) -> None:
    """What of the old host a container does not have: paths, and a model in the Hub's cache."""
    model = ledger.settings.get("DSV4_MODEL", "")
    for name in ("DSV4_MODEL", "DSV4_CHAT_TEMPLATE"):
        path = ledger.settings.get(name, "")
        if path.startswith(MODELS):
            ledger.notes.append(f"{name}: {path} must be readable by group 0; MODELS_DIR mounts its folder")
        elif path.startswith("/"):
            other = f", or set MODELS_DIR={Path(path).parent} and {name}={MODELS}{Path(path).name}"
            ledger.notes.append(
                f"{name}: a container does not have {path}: in compose.override.yaml, add "
                f"'{path}:{path}:ro' to the volumes of dsv4-pd{other if path == model else ''}; readable by group 0"
            )
    if model and not model.startswith("/"):
        ledger.notes.append(_from_cache(model, ledger.caches))


def _from_cache(model: str, caches: Mapping[str, str]) -> str:
    """A model by its name on the Hub lies in the old host's cache, and compose's volume is empty."""
    hub = caches.get("HF_HUB_CACHE") or caches.get("HUGGINGFACE_HUB_CACHE")
    home = caches.get("HF_HOME") or "~/.cache/huggingface of the units' user"
    folder = f"models--{model.replace('/', '--')}/snapshots/REVISION"
    place, below = (hub, folder) if hub else (home, f"hub/{folder}")
    return (
        f"DSV4_MODEL={model}: compose's volume for models is empty, so all of it is downloaded again; to take the old "
        f"host's, set MODELS_DIR to its cache ({place}), DSV4_MODEL={MODELS}{below} and DSV4_SERVED_MODEL_NAME"
    )


def _finished(ledger: Ledger) -> Migration:
    """Without what is the default anyway; checked as `serve` checks it."""
    values = ledger.settings | {name: shlex.join(words) for name, words in ledger.extra.items()}
    needed = {name: value for name, value in values.items() if not is_default(name, value)}
    accounts = tuple(
        replace(one, fate=Fate.OWN, why=f"{one.why}, the default")
        if one.fate is Fate.SETTING and (name := one.why.partition("=")[0]) in values and name not in needed
        else one
        for one in ledger.accounts
    )
    problems: tuple[Problem, ...] = ()
    try:
        read_settings({**ledger.kept, **needed}, profiles.read_all(profiles_dir()))
    except SettingsError as error:
        problems = error.problems
    return Migration(
        dict(sorted(needed.items(), key=_order)), dict(sorted(ledger.kept.items())), accounts,
        tuple(dict.fromkeys(ledger.notes)), frozenset(filter(None, ledger.secrets)), ledger.key, ledger.key_origin,
        problems,
    )  # fmt: skip


def _order(item: tuple[str, str]) -> int:
    names = [env_name(name) for name in Settings.model_fields]
    return names.index(item[0])
