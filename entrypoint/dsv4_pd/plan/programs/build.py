"""Every program of the appliance: settings, profile and placement in, programs out. Pure."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from dsv4_pd.host import numa
from dsv4_pd.host.address import url_of
from dsv4_pd.host.loopback import LOOPBACK
from dsv4_pd.plan.around.surroundings import Surroundings
from dsv4_pd.plan.disk.paths import Paths, venvs_dir
from dsv4_pd.plan.flags import agreement
from dsv4_pd.plan.placement.members import Member, Port, check_ports, member, ports
from dsv4_pd.plan.placement.place import Placement, RolePlacement
from dsv4_pd.plan.programs import front_build
from dsv4_pd.plan.programs.program import PER_RUN, ConfigFile, Program
from dsv4_pd.plan.programs.router_args import router_argv, trace_argv, trace_env
from dsv4_pd.plan.programs.server_env import server_env, without_proxy
from dsv4_pd.plan.programs.server_flags import server_flags
from dsv4_pd.plan.shipped.profiles import Profile
from dsv4_pd.settings import otlp
from dsv4_pd.settings.schema import Settings
from dsv4_pd.settings.text import split_args

_LAUNCH = str(Path(__file__).parents[2] / "run" / "supervision" / "launch.py")


def programs(settings: Settings, profile: Profile, placement: Placement, around: Surroundings) -> tuple[Program, ...]:
    """Every program of the appliance, in start order.

    Raises:
        SettingsError: a port that two would have, or servers that do not agree.
    """
    flags = {role.name: _flags_of(settings, profile, placement, role, around) for role in placement.roles}
    agreement.check(flags)
    servers = tuple(_server(settings, profile, placement, role, around, flags[role.name]) for role in placement.roles)
    found = (*servers, _router(settings, placement, around), _front(settings, around), _guard(settings, around))
    check_ports([(program.name, port) for program in found for port in program.ports])
    return found


def members(settings: Settings, placement: Placement) -> tuple[Member, ...]:
    """The servers of the plan with their ports."""
    return tuple(member(settings, role.role, role.index) for role in placement.roles)


def _flags_of(
    settings: Settings, profile: Profile, placement: Placement, role: RolePlacement, around: Surroundings
) -> dict[str, Any]:
    return server_flags(
        settings, profile, placement, role, around.numa_policy, around.shape, around.source, around.config
    )


def _server(
    settings: Settings,
    profile: Profile,
    placement: Placement,
    role: RolePlacement,
    around: Surroundings,
    flags: Mapping[str, Any],
) -> Program:
    config = ConfigFile(around.paths.run / f"{role.name}.yaml", yaml.safe_dump(dict(flags), sort_keys=False))
    key = _key_files(settings, around.paths, role.name)
    return Program(
        name=role.name,
        argv=(
            *_numactl(role, around.numa_policy),
            str(settings.engine_python),
            _LAUNCH,
            "sglang.launch_server",
            *_key_option(key),
            "--",
            "--config",
            str(config.path),
            *split_args(settings.extra_args(role.role)),
        ),
        env=tuple(sorted(server_env(settings, profile, placement, around).items())),
        numa_node=role.numa_node,
        gpus=tuple(gpu.uuid for gpu in role.gpus),
        ports=ports(member(settings, role.role, role.index), LOOPBACK),
        ready_url=f"http://{LOOPBACK}:{flags['port']}/ready",
        log_path=around.paths.log(role.name),
        files=(config, *key),
        stop_wait_s=30,  # prefill answers TERM in 19 s even when idle; the guard ends an idle server hard
    )


def _key_files(settings: Settings, paths: Paths, program: str) -> tuple[ConfigFile, ...]:
    """The API key in a file of its own; none when there is no key."""
    if settings.api_key is None:
        return ()
    return (ConfigFile(paths.run / f"{program}.key", settings.api_key.get_secret_value()),)


def _key_option(files: tuple[ConfigFile, ...]) -> tuple[str, ...]:
    return ("--api-key-file", str(files[0].path)) if files else ()


def _numactl(role: RolePlacement, policy: numa.Policy) -> tuple[str, ...]:
    """Bind the HTTP process as well; the engine binds only its schedulers, each to its own card's node."""
    return numa.arguments(role.numa_nodes, role.memory_nodes, policy)


def _router(settings: Settings, placement: Placement, around: Surroundings) -> Program:
    key = _key_files(settings, around.paths, "router")
    module = "smg.launch_router" if settings.router == "smg" else "sglang_router.launch_router"
    traces, no_proxy = otlp.endpoint(around.environ), without_proxy(around.environ)
    env = {**trace_env(settings, traces), "NO_PROXY": no_proxy, "no_proxy": no_proxy}
    return Program(
        name="router",
        argv=(
            str(router_python(settings)),
            _LAUNCH,
            module,
            *_key_option(key),
            "--control-key-file",
            str(around.paths.control_key),
            "--",
            *router_argv(settings, members(settings, placement)),
            *trace_argv(traces),
            *split_args(settings.router_extra_args),
        ),
        env=tuple(env.items()),
        numa_node=None,
        gpus=(),
        ports=(
            Port("DSV4_ROUTER_PORT", LOOPBACK, settings.router_port),
            Port("DSV4_ROUTER_METRICS_PORT", LOOPBACK, settings.router_metrics_port),
        ),
        ready_url=f"{front_build.router_url(settings)}/readiness",
        log_path=around.paths.log("router"),
        files=(*key, ConfigFile(around.paths.control_key, PER_RUN)),
        autorestart=True,
        stop_wait_s=int(settings.drain_timeout) + 5,
    )


def router_python(settings: Settings) -> Path:
    """The interpreter of the chosen router: its own environment without torch (0.5 s and 80 MB, not 6 s and 830)."""
    if settings.router_python:
        return settings.router_python
    name = "smg" if settings.router == "smg" else "router"
    return venvs_dir(settings.engine_python) / name / "bin" / "python"


def _front(settings: Settings, around: Surroundings) -> Program:
    key = _key_files(settings, around.paths, "front")
    config = front_build.configuration(settings, around.paths, key[0].path if key else None)
    return Program(
        name="front",
        argv=front_build.argv(around.paths.front_config),
        env=(("PYTHONUNBUFFERED", "1"),),
        numa_node=None,
        gpus=(),
        ports=(
            Port("DSV4_PORT", settings.host, settings.port),
            Port("DSV4_FRONT_METRICS_PORT", LOOPBACK, settings.front_metrics_port),
        ),
        ready_url=f"{front_build.front_url(settings)}/livez",
        log_path=around.paths.log("front"),
        files=(
            ConfigFile(around.paths.front_config, config.to_json()),
            *key,
            ConfigFile(around.paths.front_key, PER_RUN),
        ),
        autorestart=True,
        stop_wait_s=int(settings.drain_timeout) + 5,
    )


def _guard(settings: Settings, around: Surroundings) -> Program:
    return Program(
        name="guard",
        argv=(sys.executable, "-m", "dsv4_pd", "guard", "--config", str(around.paths.guard_config)),
        env=(("PYTHONUNBUFFERED", "1"),),
        numa_node=None,
        gpus=(),
        ports=(Port("DSV4_OPS_PORT", settings.ops_host, settings.ops_port),),
        ready_url=f"{url_of(settings.ops_host, settings.ops_port)}/livez",
        log_path=around.paths.log("guard"),
        autorestart=True,
        stop_wait_s=5,
    )
