"""The variables of one SGLang server, and where no program asks a proxy. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from dsv4_pd.host.loopback import LOOPBACK
from dsv4_pd.plan.around.surroundings import Surroundings
from dsv4_pd.plan.disk.paths import Paths
from dsv4_pd.plan.placement.place import Placement
from dsv4_pd.plan.programs.engine_rules import context_env
from dsv4_pd.plan.shipped.profiles import Profile
from dsv4_pd.settings.schema import Settings


def server_env(settings: Settings, profile: Profile, placement: Placement, around: Surroundings) -> dict[str, str]:
    """Variables of one server: ours first, then defaults that the operator's own variables override."""
    paths, environ = around.paths, around.environ
    env = {
        "SGLANG_HOST_IP": LOOPBACK,  # otherwise the engine probes a route to a public address
        "DSV4_PLUGIN_RECORD_DIR": str(paths.plugin_records),
        **context_env(settings, around),
        "TMPDIR": str(paths.temp),
        "NO_PROXY": without_proxy(environ),
        "no_proxy": without_proxy(environ),
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
        # One host by design: what the servers open for each other stays off the container's network.
        "UCX_NET_DEVICES": "lo",
        "GLOO_SOCKET_IFNAME": "lo",
        "NCCL_SOCKET_IFNAME": "lo",  # its bootstrap listens on the first other interface, unless told
    }
    if placement.device == "cuda":
        env["UCX_TLS"] = "cuda,sm,tcp,self"
        if settings.pcie_allreduce != "off":
            env["SGLANG_ENABLE_PCIE_IPC_ALLREDUCE"] = "1"
    return env


def without_proxy(environ: Mapping[str, str]) -> str:
    """The operator's list with loopback added: a proxy must never see the calls between our own servers."""
    own = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    return ",".join(dict.fromkeys([*filter(None, own.split(",")), LOOPBACK, "localhost"]))
