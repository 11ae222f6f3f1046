"""What supervisord runs, as plain data: rendering, doctor, guard and tests all read the same value.

`programs(...)` is pure: settings, profile and placement in, programs out. Engine flags are those of SGLang 0.5.23
and sglang-router 0.3.2; a test resolves them through SGLang's own argument resolution.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import SecretStr

from dsv4_pd.host import numa
from dsv4_pd.host.address import url_of
from dsv4_pd.host.loopback import LOOPBACK
from dsv4_pd.plan.around.surroundings import Surroundings
from dsv4_pd.plan.disk.paths import Paths, venvs_dir
from dsv4_pd.plan.flags import agreement
from dsv4_pd.plan.memory import offload
from dsv4_pd.plan.memory.pinned import pinned_tokens
from dsv4_pd.plan.memory.plan import window_ratio
from dsv4_pd.plan.model.checkpoint import expert_flags
from dsv4_pd.plan.model.shape import Shape
from dsv4_pd.plan.placement.members import Member, Port, check_ports, listens_on, member, ports
from dsv4_pd.plan.placement.place import Placement, RolePlacement
from dsv4_pd.plan.programs import front_build
from dsv4_pd.plan.programs.engine_rules import context_env, server_context
from dsv4_pd.plan.programs.router_args import router_argv, trace_argv, trace_env
from dsv4_pd.plan.shipped.profiles import Profile
from dsv4_pd.settings import otlp
from dsv4_pd.settings.interfaces import is_rdma
from dsv4_pd.settings.schema import Settings
from dsv4_pd.settings.text import split_args

# Stands in a plan for what each run decides for itself: a secret drawn when the files are written, a branch's commit.
PER_RUN = "<per run>"
_LAUNCH = str(Path(__file__).parents[2] / "run" / "supervision" / "launch.py")


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file that a program reads; mode 0600 because it may hold the API key."""

    path: Path
    text: str
    mode: int = 0o600

    @property
    def drawn(self) -> bool:
        """Whether the text is a secret of one run, which no plan knows."""
        return self.text == PER_RUN


@dataclass(frozen=True, slots=True)
class Program:
    """One supervised process tree."""

    name: str  # a member's ("prefill", "decode-2"), "router", "front", "guard"
    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    numa_node: int | None
    gpus: tuple[str, ...]  # UUIDs
    ports: tuple[Port, ...]
    ready_url: str | None
    log_path: Path
    files: tuple[ConfigFile, ...] = ()
    autorestart: bool = False  # servers are restarted by the guard, by policy
    stop_wait_s: int = 10


def programs(settings: Settings, profile: Profile, placement: Placement, around: Surroundings) -> tuple[Program, ...]:
    """Every program of the appliance, in start order.

    Raises:
        SettingsError: a port that two would have, or servers that do not agree.
    """
    flags = {role.name: _flags_of(settings, profile, placement, role, around) for role in placement.roles}
    agreement.check(flags)
    servers = tuple(_server(settings, profile, placement, role, around, flags[role.name]) for role in placement.roles)
    way = (_router(settings, placement, around), _front(settings, around)) if settings.role in ("all", "router") else ()
    found = (*servers, *way, _guard(settings, around))
    check_ports([(program.name, port) for program in found for port in program.ports])
    return found


def members(settings: Settings, placement: Placement) -> tuple[Member, ...]:
    """The servers of the plan with their ports."""
    return tuple(member(settings, role.role, role.index) for role in placement.roles)


def server_flags(
    settings: Settings,
    profile: Profile,
    placement: Placement,
    role: RolePlacement,
    policy: numa.Policy = "none",
    shape: Shape | None = None,
    source: Path | None = None,
    config: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The flags of one SGLang server as its `--config` file spells them.

    `source` is the model's folder, here or to be fetched; None: a branch's commit decides, at the start.
    """
    flags = _common_flags(settings, source) | _role_flags(settings, member(settings, role.role, role.index))
    if placement.device == "cuda":
        flags |= _gpu_flags(settings, placement, role, policy) | expert_flags(config)
        if ratio := window_ratio(settings, role, shape, pinned_tokens(settings, profile, placement)):
            flags["swa-full-tokens-ratio"] = ratio
        flags |= offload.flags(settings, profile, role, shape)
    return flags | dict(profile.engine.get("common", {})) | dict(profile.engine.get(role.role, {}))


def _common_flags(settings: Settings, source: Path | None) -> dict[str, Any]:
    """What both roles must agree on, from one source; a mismatch kills decode at the first request.

    The model is given as its folder, which `serve` fills before the servers start: an engine that is given a name asks
    the Hub again at every start, and takes what a branch leads to by then.
    """
    flags: dict[str, Any] = {
        "model-path": str(source or PER_RUN),
        "served-model-name": settings.served_model_name or settings.model,
        "host": listens_on(settings),
        "context-length": server_context(settings),
        "chunked-prefill-size": settings.chunked_prefill_size,
        "max-running-requests": settings.max_running_requests,
        "reasoning-parser": "deepseek-v4",
        "tool-call-parser": "deepseekv4",
        "enable-metrics": True,
        "enable-cache-report": True,
        # The guard reads milestones at info; the console filters by DSV4_LOG_LEVEL.
        "log-level": "debug" if settings.log_level == "debug" else "info",
        "log-level-http": "warning",
    }
    if settings.chat_template:
        flags["chat-template"] = str(settings.chat_template)
    return flags | _speculative_flags(settings)


def _speculative_flags(settings: Settings) -> dict[str, Any]:
    """NEXTN asserts for this model in 0.5.23; EAGLE with top-k 1 is its spelling."""
    if settings.speculative == "eagle":
        return {
            "speculative-algorithm": "EAGLE",
            "speculative-num-steps": 3,
            "speculative-eagle-topk": 1,
            "speculative-num-draft-tokens": 4,
        }
    return {"speculative-algorithm": "DSPARK"} if settings.speculative == "dspark" else {}


def _role_flags(settings: Settings, one: Member) -> dict[str, Any]:
    own: dict[str, Any] = {"port": one.port, "nccl-port": one.nccl_port}
    if one.role == "single":
        return own
    return own | {
        "disaggregation-mode": one.role,
        "disaggregation-transfer-backend": "nixl",  # the engine's default is mooncake
        # Decode takes it from each request, which names the prefill that has it.
        "disaggregation-bootstrap-port": one.bootstrap_port or settings.bootstrap_port,
    }


def _gpu_flags(settings: Settings, placement: Placement, role: RolePlacement, policy: numa.Policy) -> dict[str, Any]:
    prefill = role.role == "prefill"
    flags: dict[str, Any] = {
        "tp-size": role.tensor_parallel,
        "base-gpu-id": role.base_gpu_id,
        "mem-fraction-static": settings.prefill_mem_fraction if prefill else settings.decode_mem_fraction,
    }
    if not prefill:
        flags["cuda-graph-max-bs-decode"] = settings.max_running_requests  # the default captures up to 512
    nodes = [gpu.numa_node for gpu in placement.visible]
    if policy != "none" and role.numa_nodes and None not in nodes:
        flags["numa-node"] = nodes  # indexed by GPU id: one entry for every visible GPU, not for the role's own
    return flags


def server_env(settings: Settings, profile: Profile, placement: Placement, around: Surroundings) -> dict[str, str]:
    """Variables of one server: ours first, then defaults that the operator's own variables override."""
    paths, environ = around.paths, around.environ
    env = {
        "SGLANG_HOST_IP": listens_on(settings),  # otherwise the engine probes a route to a public address
        "DSV4_PLUGIN_RECORD_DIR": str(paths.plugin_records),
        **context_env(settings, around),
        "TMPDIR": str(paths.temp),
        "NO_PROXY": _no_proxy(settings, environ),
        "no_proxy": _no_proxy(settings, environ),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ",".join(gpu.uuid for gpu in placement.visible),  # none on a CPU profile
    }
    site = [str(around.share / part) for part in profile.engine_path]
    if site:
        env["PYTHONPATH"] = ":".join([*site, *filter(None, [environ.get("PYTHONPATH")])])
    defaults = _env_defaults(settings, placement, paths) | dict(profile.engine_env)
    if settings.kernels == "stock":
        defaults |= {"DSV4_KERNELS": "stock"}
    return {key: value for key, value in defaults.items() if not environ.get(key)} | env


def _env_defaults(settings: Settings, placement: Placement, paths: Paths) -> dict[str, str]:
    wait = str(int(settings.link_timeout))
    env = {
        "SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT": wait,  # the engine's default is 300 s: a client's wait when
        "SGLANG_DISAGGREGATION_WAITING_TIMEOUT": wait,  # the peer is gone and nobody noticed
        "SGLANG_DISAGGREGATION_HEARTBEAT_INTERVAL": "2",  # decode fails what waits for a dead prefill after two misses
        "SGLANG_CUDA_COREDUMP_BEFORE_CRASH_WAIT_SECS": "0",  # else a crashed server lingers for a minute
        "SGLANG_CACHE_DIR": str(paths.cache),
        "SGLANG_JIT_CACHE_DIR": str(paths.cache / "jit"),  # does not follow SGLANG_CACHE_DIR
        "HUMMING_CACHE_DIR": str(paths.cache / "humming"),
        "UCX_LOG_LEVEL": "warn",
        # What the servers open for each other stays off the container's network, but for members of several hosts.
        "UCX_NET_DEVICES": ",".join(settings.net_devices) or "lo",
        "GLOO_SOCKET_IFNAME": "lo",
        "NCCL_SOCKET_IFNAME": "lo",  # its bootstrap listens on the first other interface, unless told
    }
    if placement.device == "cuda":
        env["UCX_TLS"] = ("rc," if any(map(is_rdma, settings.net_devices)) else "") + "cuda,sm,tcp,self"
        if settings.pcie_allreduce != "off":
            env["SGLANG_ENABLE_PCIE_IPC_ALLREDUCE"] = "1"
    return env


def _no_proxy(settings: Settings, environ: Mapping[str, str]) -> str:
    """The operator's list with loopback added: a proxy must never see the calls between our own servers. On several
    hosts a program calls nobody else, and learns its peers' addresses from requests.
    """
    if settings.role != "all":
        return "*"
    own = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    return ",".join(dict.fromkeys([*filter(None, own.split(",")), LOOPBACK, "localhost"]))


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
        ports=ports(member(settings, role.role, role.index), listens_on(settings)),
        ready_url=f"http://{listens_on(settings)}:{flags['port']}/ready",
        log_path=around.paths.log(role.name),
        files=(config, *key),
        stop_wait_s=30,  # prefill answers TERM in 19 s even when idle; the guard ends an idle server hard
    )


def _key_files(settings: Settings, paths: Paths, program: str) -> tuple[ConfigFile, ...]:
    """The key of router and servers in a file of its own; none when there is no key."""
    return _key_file(settings.inner_key, paths, program)


def _key_file(key: SecretStr | None, paths: Paths, program: str) -> tuple[ConfigFile, ...]:
    return (ConfigFile(paths.run / f"{program}.key", key.get_secret_value()),) if key else ()


def _key_option(files: tuple[ConfigFile, ...]) -> tuple[str, ...]:
    return ("--api-key-file", str(files[0].path)) if files else ()


def _numactl(role: RolePlacement, policy: numa.Policy) -> tuple[str, ...]:
    """Bind the HTTP process as well; the engine binds only its schedulers, each to its own card's node."""
    return numa.arguments(role.numa_nodes, role.memory_nodes, policy)


def _router(settings: Settings, placement: Placement, around: Surroundings) -> Program:
    key = _key_files(settings, around.paths, "router")
    module = "smg.launch_router" if settings.router == "smg" else "sglang_router.launch_router"
    traces, no_proxy = otlp.endpoint(around.environ), _no_proxy(settings, around.environ)
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
    key = _key_file(settings.api_key, around.paths, "front")
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
