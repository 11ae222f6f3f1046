"""From the plan to the guard's configuration, pure. `serve` runs this; the guard process never loads the settings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Literal

from dsv4_pd import __version__
from dsv4_pd.host.loopback import LOOPBACK
from dsv4_pd.plan.disk.paths import Paths, share_dir
from dsv4_pd.plan.front import open_api
from dsv4_pd.plan.guard.config import GuardConfig, Limits, MemoryBudget, ServerConfig
from dsv4_pd.plan.memory import plan as memory_plan
from dsv4_pd.plan.model.shape import Shape
from dsv4_pd.plan.placement.members import Member
from dsv4_pd.plan.placement.place import Placement
from dsv4_pd.plan.programs import front_build
from dsv4_pd.plan.programs.build import members
from dsv4_pd.plan.programs.program import Program
from dsv4_pd.plan.shipped.profiles import Profile
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
    return GuardConfig(
        version=__version__,
        fingerprint=_fingerprint(programs),
        mode=placement.mode,
        profile=placement.profile,
        servers=tuple(_server(by_name[one.name], one, budgets) for one in members(settings, placement)),
        router_url=front_build.router_url(settings),
        router_log=str(by_name["router"].log_path),
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
        control_key_file=str(paths.control_key),
        notices=open_api.notices(settings),
        api_key=settings.api_key.get_secret_value() if settings.api_key else None,
        safe_mode=settings.safe_mode,
        plugins=_plugins(settings, profile),
        router_metrics_url=f"http://{LOOPBACK}:{settings.router_metrics_port}/metrics",
        front_url=front_build.front_url(settings),
        front_log=str(by_name["front"].log_path),
        front_key_file=str(paths.front_key),
        front_metrics_url=f"http://{LOOPBACK}:{settings.front_metrics_port}/metrics",
        cache_dir=str(paths.cache),
        warm_up=_warm_up(settings, placement),
        cache_strict=settings.cache_strict == "on",
        about=about or {},
        limits=_limits(settings),
    )


def _server(program: Program, one: Member, budgets: Mapping[str, MemoryBudget]) -> ServerConfig:
    bootstrap = one.bootstrap_port
    return ServerConfig(
        name=one.name,
        url=f"http://{LOOPBACK}:{one.port}",
        log=str(program.log_path),
        gpus=program.gpus,
        bootstrap_url=f"http://{LOOPBACK}:{bootstrap}" if bootstrap else None,
        bootstrap_port=bootstrap,
        role=one.role,
        memory=budgets.get(one.name),
    )


def _plugins(settings: Settings, profile: Profile) -> tuple[str, ...]:
    """Plugins named by the profile; the kernels' one is left out where the operator asked for the stock kernels."""
    named = profile.engine_env.get("SGLANG_PLUGINS", "").split(",")
    stock = settings.kernels == "stock"
    return tuple(name for name in named if name and not (stock and name == "dsv4-kernels"))


def _warm_up(settings: Settings, placement: Placement) -> Literal["off", "few", "all"]:
    if settings.warm_up == "off":
        return "off"
    return "all" if placement.device == "cuda" else "few"


def _limits(settings: Settings) -> Limits:
    return Limits(
        start_timeout=settings.start_timeout,
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
