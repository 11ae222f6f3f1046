"""From the plan to the guard's configuration, pure. `serve` runs this; the guard process never loads the settings."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any, Literal

from dsv4_pd import __version__
from dsv4_pd.host.loopback import LOOPBACK
from dsv4_pd.plan.disk.paths import Paths, share_dir
from dsv4_pd.plan.front import open_api
from dsv4_pd.plan.guard.config import GuardConfig, Limits, MemoryBudget, ServerConfig
from dsv4_pd.plan.memory import plan as memory_plan
from dsv4_pd.plan.model.shape import Shape
from dsv4_pd.plan.notices import NoticeKind
from dsv4_pd.plan.placement.members import Elsewhere, Member, elsewhere, listens_on
from dsv4_pd.plan.placement.place import Placement
from dsv4_pd.plan.programs import front_build
from dsv4_pd.plan.programs.program import Program, members
from dsv4_pd.plan.shipped.profiles import Profile
from dsv4_pd.settings.layout import PAIR_ROLES
from dsv4_pd.settings.schema import Settings


def build(
    settings: Settings,
    profile: Profile,
    placement: Placement,
    programs: tuple[Program, ...],
    paths: Paths,
    about: Mapping[str, Any] | None = None,
    shape: Shape | None = None,
) -> GuardConfig:
    """The guard's view of the plan."""
    by_name = {program.name: program for program in programs}
    budgets = memory_plan.budgets(settings, placement, shape) if shape else {}
    way = "router" in by_name
    return GuardConfig(
        version=__version__,
        fingerprint=_fingerprint(programs),
        mode=placement.mode,
        profile=placement.profile,
        servers=(
            *(_server(by_name[one.name], one, budgets, listens_on(settings)) for one in members(settings, placement)),
            *(_elsewhere(one, settings.ops_port) for one in elsewhere(settings)),
        ),
        router_url=front_build.router_url(settings) if way else "",
        router_log=str(by_name["router"].log_path) if way else "",
        model=settings.served_model_name or settings.model,
        model_source=settings.model,
        model_revision=settings.model_revision,
        ops_host=settings.ops_host,
        ops_port=settings.ops_port,
        socket=str(paths.supervisor_socket),
        health_file=str(paths.health),
        exit_file=str(paths.verdict),
        starts_file=str(paths.state / "starts.json"),
        record_dir=str(paths.plugin_records),
        signatures=str(share_dir() / "config" / "signatures.toml"),
        temp_dir=str(paths.temp),
        supervisor_log=str(paths.log("supervisord")),
        control_key_file=str(paths.control_key) if way else "",
        notices=(*(open_api.notices(settings) if way else ()), *_link_notices(placement)),
        api_key=settings.inner_key.get_secret_value() if settings.inner_key else None,
        safe_mode=settings.safe_mode,
        plugins=_plugins(settings, profile),
        router_metrics_url=f"http://{LOOPBACK}:{settings.router_metrics_port}/metrics" if way else "",
        front_url=front_build.front_url(settings) if way else "",
        front_log=str(by_name["front"].log_path) if way else "",
        front_key_file=str(paths.front_key) if way else "",
        front_metrics_url=f"http://{LOOPBACK}:{settings.front_metrics_port}/metrics" if way else "",
        cache_dir=str(paths.cache),
        warm_up=_warm_up(settings, profile),
        cache_strict=settings.cache_strict == "on",
        about=about or {},
        limits=_limits(settings),
    )


def _link_notices(placement: Placement) -> tuple[str, ...]:
    return tuple(one.text for one in placement.notices if one.kind is NoticeKind.LINK_OVER_TCP)


def _elsewhere(one: Elsewhere, ops_port: int) -> ServerConfig:
    """A member on another host: every ops port has the same number."""
    bootstrap = one.at.bootstrap_port
    return ServerConfig(
        name=one.name,
        url=f"http://{one.at.host}:{one.at.port}",
        log="",
        bootstrap_url=f"http://{one.at.host}:{bootstrap}" if bootstrap else None,
        bootstrap_port=bootstrap,
        role=one.role,
        ops_url=f"http://{one.at.host}:{ops_port}",
    )


def _server(program: Program, one: Member, budgets: Mapping[str, MemoryBudget], host: str) -> ServerConfig:
    bootstrap = one.bootstrap_port
    return ServerConfig(
        name=one.name,
        url=f"http://{host}:{one.port}",
        log=str(program.log_path),
        gpus=program.gpus,
        bootstrap_url=f"http://{host}:{bootstrap}" if bootstrap else None,
        bootstrap_port=bootstrap,
        role=one.role,
        memory=budgets.get(one.name),
    )


def _plugins(settings: Settings, profile: Profile) -> tuple[str, ...]:
    """Plugins named by the profile; the kernels' one is left out where the operator asked for the stock kernels."""
    named = profile.engine_env.get("SGLANG_PLUGINS", "").split(",")
    stock = settings.kernels == "stock"
    return tuple(name for name in named if name and not (stock and name == "dsv4-kernels"))


def _warm_up(settings: Settings, profile: Profile) -> Literal["off", "few", "all"]:
    """Half a pair can't be warmed up alone: the router's guard does it."""
    if settings.warm_up == "off" or settings.role in PAIR_ROLES:
        return "off"
    return "all" if profile.device == "cuda" else "few"


def _limits(settings: Settings) -> Limits:
    return Limits(
        # A router waits for its members for as long as it takes: a restart would bring none of them.
        start_timeout=settings.start_timeout if settings.role != "router" else math.inf,
        stall_timeout=settings.stall_timeout,
        restart_limit=settings.restart_limit,
        restart_window=settings.restart_window,
        drain_timeout=settings.drain_timeout,
        link_timeout=settings.link_timeout,
    )


def _fingerprint(programs: tuple[Program, ...]) -> str:
    plan: list[Mapping[str, Any]] = [
        {"argv": item.argv, "env": item.env, "files": [file.text for file in item.files]} for item in programs
    ]
    return hashlib.sha256(json.dumps([__version__, plan], default=str).encode()).hexdigest()[:16]
