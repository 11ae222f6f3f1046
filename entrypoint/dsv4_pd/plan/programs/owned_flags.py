"""Flags that the plan sets: an extra argument may not set them behind its back. Pure.

A later flag wins silently in argparse, so `--port` in the extra arguments would move a server away from the router
(NVIDIA/srt-slurm PR#155). argparse also takes unique prefixes, so `--disaggregation-boot` counts too. What is owned
is derived from the flags that the plan sets; the tables below hold only what can't be derived. A test holds them
against the parsers of the engine and of both routers.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

from dsv4_pd.errors import Problem
from dsv4_pd.host.facts import Gpu, HostFacts, NumaNode
from dsv4_pd.plan.flags.argument_parsers import refusal
from dsv4_pd.plan.flags.argument_parsers import spelled_out as spelled
from dsv4_pd.plan.model.shape import Shape
from dsv4_pd.plan.placement.members import member
from dsv4_pd.plan.placement.place import place
from dsv4_pd.plan.programs.router_args import router_argv
from dsv4_pd.plan.programs.server_flags import server_flags
from dsv4_pd.plan.shipped.profiles import Profile
from dsv4_pd.settings import layout
from dsv4_pd.settings.fields import SHELL_WORDS
from dsv4_pd.settings.redact import Redactor
from dsv4_pd.settings.schema import Settings, env_name
from dsv4_pd.settings.text import bare

RouterName = Literal["sglang-router", "smg"]
ROUTERS: tuple[RouterName, ...] = get_args(RouterName)
# another spelling of a flag -> the flag that the plan sets
ENGINE_SYNONYMS = {
    "--model": "--model-path",
    "--tensor-parallel-size": "--tp-size",
    "--enable-hicache": "--enable-hierarchical-cache",
}
ROUTER_SYNONYMS: Mapping[str, str] = {}
# Not set by the plan, and still not the operator's: why.
_BOTH_ROLES = "both roles must agree: a difference kills decode at the first request"
ENGINE_ALSO = {
    "--revision": "DSV4_MODEL_REVISION",  # the servers are given that commit's folder
    "--tokenizer-path": "DSV4_MODEL",
    "--config": "the plan writes it",
    "--api-key": "DSV4_API_KEY",
    "--gpu-id-step": "DSV4_PREFILL_GPUS and DSV4_DECODE_GPUS",
    "--hicache-size": "DSV4_KV_OFFLOAD_GB; the engine refuses this one for DeepSeek-V4",
    "--page-size": _BOTH_ROLES,
    "--kv-cache-dtype": _BOTH_ROLES,
    "--enable-pd-role-switch": "the roles are fixed",
    "--dist-init-addr": "one host by design",
    "--nccl-init-addr": "one host by design",
    "--help": "it ends the server",
    "-h": "it ends the server",
}
ROUTER_ALSO = {
    "--api-key": "DSV4_API_KEY",
    "--control-plane-api-keys": "the guard alone has that key",
    "--queue-size": "DSV4_QUEUE_SIZE",
    "--queue-timeout-secs": "the queue is the front's",
    "--rate-limit-tokens-per-second": "the limit is the front's: DSV4_MAX_CONCURRENT_REQUESTS",
    "--disable-health-check": "the router must know which servers are ready",
    "--help": "it ends the router",
    "-h": "it ends the router",
}
# Set by the plan or a profile, and still the operator's to change: why.
ENGINE_FREE = {"--max-total-tokens": "a profile's KV pool is a default; each role may have its own"}
ROUTER_FREE = {"--policy": "how requests are spread; between one pair there is nothing to choose"}
# The setting that moves a flag, where their names differ.
_ENGINE_SETTINGS = {
    "--model-path": "DSV4_MODEL",
    "--host": "loopback by design",
    "--port": "DSV4_PREFILL_PORT and DSV4_DECODE_PORT",
    "--nccl-port": "DSV4_PREFILL_NCCL_PORT and DSV4_DECODE_NCCL_PORT",
    "--tp-size": "DSV4_PREFILL_GPUS and DSV4_DECODE_GPUS",
    "--base-gpu-id": "DSV4_PREFILL_GPUS and DSV4_DECODE_GPUS",
    "--numa-node": "DSV4_NUMA",
    "--device": "DSV4_PROFILE",
    "--mem-fraction-static": "DSV4_PREFILL_MEM_FRACTION and DSV4_DECODE_MEM_FRACTION",
    "--cuda-graph-max-bs-decode": "DSV4_MAX_RUNNING_REQUESTS",
    "--disaggregation-mode": "DSV4_LAYOUT",
    "--disaggregation-bootstrap-port": "DSV4_BOOTSTRAP_PORT",
    "--speculative-algorithm": "DSV4_SPECULATIVE",
    "--enable-hierarchical-cache": "DSV4_KV_OFFLOAD_GB",
    "--hicache-ratio": "DSV4_KV_OFFLOAD_GB",
}
_ROUTER_SETTINGS = {
    "--pd-disaggregation": "DSV4_LAYOUT",
    "--prefill": "DSV4_PREFILL_PORT",
    "--decode": "DSV4_DECODE_PORT",
    "--worker-urls": "DSV4_PREFILL_PORT",
    "--host": "loopback by design",
    "--port": "DSV4_ROUTER_PORT",
    "--max-concurrent-requests": "DSV4_MAX_CONCURRENT_REQUESTS",
    "--prometheus-port": "DSV4_ROUTER_METRICS_PORT",
    "--request-timeout-secs": "DSV4_REQUEST_TIMEOUT",
    "--shutdown-grace-period-secs": "DSV4_DRAIN_TIMEOUT",
    "--worker-startup-timeout-secs": "DSV4_START_TIMEOUT",
}
_ENGINE_FIELDS = ("prefill_extra_args", "decode_extra_args")


def engine_flags(known: Mapping[str, Profile]) -> frozenset[str]:
    """Every flag that the plan sets on some server, with any shipped profile."""
    return frozenset(
        f"--{flag}"
        for settings, profile in _variants(known)
        for placement in [place(settings, profile, _host(profile))]
        for role in placement.roles
        for flag in server_flags(settings, profile, placement, role, "membind", Shape())
    )


def router_flags(routers: Sequence[RouterName] = ROUTERS) -> frozenset[str]:
    """Every flag that the plan sets on one of the routers."""
    layouts = [layout.parse(text) for text in ("pd:1+1", "pd:2x1+2x1", "single:1", "replicas:2x1")]
    argvs = (
        router_argv(settings, [member(settings, role, index) for role, index in wanted.members])
        for name in routers
        for settings in [Settings(router=name)]
        for wanted in layouts
    )
    return frozenset(word for argv in argvs for word in argv if word.startswith("--"))


def _variants(known: Mapping[str, Profile]) -> Iterator[tuple[Settings, Profile]]:
    """Settings that between them bring out every flag."""
    for profile in known.values():
        for kind in (layout.PAIR, layout.SINGLE):
            if kind.groups[0].role not in profile.tensor_parallel:
                continue
            for algorithm in ("off", "eagle", "dspark"):
                chosen = Settings(
                    layout=kind, speculative=algorithm, numa="auto",
                    chat_template=Path("/t.jinja"), kv_offload_gb=1000.0,
                )  # fmt: skip
                yield chosen.with_defaults(profile.defaults), profile


def _host(profile: Profile) -> HostFacts:
    """A machine that the profile fits: eight of its cards on one NUMA node."""
    need = profile.gpus
    node = NumaNode(0, frozenset({0}), 1 << 40)
    if need is None:
        return HostFacts((), (node,), frozenset({0}))
    size = round(need.min_memory_gb * 1e9)
    cards = (Gpu(i, f"GPU-{i}", "any", f"{i}", need.compute_capability, size, 0, 0) for i in range(8))
    return HostFacts(tuple(cards), (node,), frozenset({0}))


def engine_owned(known: Mapping[str, Profile]) -> dict[str, str]:
    """Flag -> the setting that does it, or why it can't be set."""
    return _owned(engine_flags(known), ENGINE_FREE, ENGINE_SYNONYMS, ENGINE_ALSO, _ENGINE_SETTINGS)


def router_owned(routers: Sequence[RouterName] = ROUTERS) -> dict[str, str]:
    """The same for the routers."""
    return _owned(router_flags(routers), ROUTER_FREE, ROUTER_SYNONYMS, ROUTER_ALSO, _ROUTER_SETTINGS)


def _owned(
    flags: Iterable[str],
    free: Mapping[str, str],
    synonyms: Mapping[str, str],
    also: Mapping[str, str],
    settings: Mapping[str, str],
) -> dict[str, str]:
    found = {flag: settings.get(flag) or _setting(flag) for flag in flags if flag not in free}
    return found | {other: found[flag] for other, flag in synonyms.items() if flag in found} | dict(also)


def _setting(flag: str) -> str:
    field = flag.removeprefix("--").replace("-", "_")
    return env_name(field) if field in Settings.model_fields else "the plan sets it"


def taken(text: str, owned: Mapping[str, str]) -> list[tuple[str, str]]:
    """(flag as written, who owns it) for each owned flag among the shell words.

    >>> taken("--log-requests --por=80", {"--port": "DSV4_PORT"})
    [('--por', 'DSV4_PORT')]
    """
    found = []
    for word in shlex.split(text):
        flag = word.split("=", 1)[0].replace("_", "-")
        if not flag.startswith("-") or flag == "--":
            continue
        match = flag if flag in owned else _abbreviated(flag, owned)
        if match:
            found.append((flag, owned[match]))
    return found


def _abbreviated(flag: str, owned: Iterable[str]) -> str | None:
    return next((name for name in sorted(owned) if name.startswith(flag)), None) if flag.startswith("--") else None


def problems(environ: Mapping[str, str], known: Mapping[str, Profile]) -> list[Problem]:
    """What is wrong with the extra arguments: flags that the plan sets, and words that the program's own parser would
    end on. Texts that are no shell words are the settings' own question.
    """
    given = {name.upper(): text for name, text in environ.items()}
    found: list[Problem | None] = []
    engine = [(name, text) for field in _ENGINE_FIELDS if (text := given.get(name := env_name(field)))]
    if engine:
        owned = engine_owned(known)
        found += [_problem(name, text, owned, "engine") for name, text in engine]
    if text := given.get(name := env_name("router_extra_args")):
        found.append(_problem(name, text, router_owned(), _router(given)))
    return [problem for problem in found if problem]


def spelled_out(settings: Settings) -> Settings:
    """With every flag of the extra arguments in full: the memory model and others look for some by name."""
    fields = dict.fromkeys(_ENGINE_FIELDS, "engine") | {"router_extra_args": settings.router}
    full = {field: spelled(getattr(settings, field), program) for field, program in fields.items()}
    return settings.model_copy(update={name: text for name, text in full.items() if text != getattr(settings, name)})


def _router(given: Mapping[str, str]) -> str:
    """The router whose parser reads the words; one of another name is the settings' own problem."""
    name = str(bare(given.get(env_name("router"), ""))).lower()
    return name if name in ROUTERS else str(Settings.model_fields["router"].default)


def _problem(name: str, text: str, owned: Mapping[str, str], program: str) -> Problem | None:
    try:
        text = SHELL_WORDS.apply(text)
        flags, words = taken(text, owned), shlex.split(text)
    except ValueError:
        return None
    shown = repr(Redactor().text(text))
    if flags:
        listed = ", ".join(f"{flag} ({owner})" for flag, owner in flags)
        remedy = "use the setting in brackets, or remove the flag"
        return Problem(name, shown, f"flags that the appliance does not own; it owns {listed}", remedy)
    if why := refusal(words, program):
        whose = "the engine's" if program == "engine" else f"{program}'s"
        return Problem(name, shown, f"words that {whose} own parser takes: {why}", "correct or remove it")
    return None
