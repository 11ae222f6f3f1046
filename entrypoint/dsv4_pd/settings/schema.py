"""The operator's settings: read once from the environment, checked together, frozen.

Names carry the prefix `DSV4_`. Blank means unset. A secret may come from a file (`DSV4_API_KEY_FILE`). Each setting's
type is the rule of whoever consumes it (`settings.fields`). Quotes and blanks around a value are taken off, because
`docker run --env-file` keeps quotes that `docker compose` strips; keys and extra arguments are taken byte for byte.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, PrivateAttr

from dsv4_pd.settings import deprecated
from dsv4_pd.settings.declare import Section, setting
from dsv4_pd.settings.fields import (
    WORD,
    Address,
    Context,
    Count,
    Duration,
    ExtraArgs,
    File,
    Folder,
    Fraction,
    Gigabytes,
    GpuList,
    Interpreter,
    Key,
    LayoutText,
    Model,
    Origins,
    Port,
    RequestLog,
    Revision,
    RunFolder,
    Seconds,
    ServedName,
    Template,
    is_duration,
    is_secret,
)

PREFIX = "DSV4_"
# Names that the first compose.yaml read. They mean nothing natively, where another tool may use them.
COMPOSE_RENAMED = {"API_KEY_FILE": "DSV4_API_KEY_FILE", "API_BIND": "DSV4_HOST", "OPS_BIND": "DSV4_OPS_HOST"}
COMPOSE_VERSION = "DSV4_COMPOSE_VERSION"  # set by compose.yaml alone
# Read by the image, the compose file or the engine's plugins, not by the control plane; allowed, never typos.
FOREIGN = frozenset({"DSV4_IMAGE", COMPOSE_VERSION, "DSV4_PLUGIN_RECORD_DIR", "DSV4_CPU_PD_CORRUPT"})


def _venv(name: str) -> Path:
    """The interpreter of a sibling of our own environment: `engine` and `router` lie beside `appliance`."""
    return Path(sys.prefix).parent / name / "bin" / "python"


class Settings(BaseModel):
    """All settings with their defaults; the field descriptions are the text of docs/env.md.

    Reads nothing by itself: `settings.load` takes the values from the environment that it is given.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    # Old name -> what to tell of it, for each that the operator used.
    _deprecated: dict[str, str] = PrivateAttr(default_factory=dict)

    layout: LayoutText = setting(
        None,
        description="Which servers on how many GPUs: `pd:4+4` (prefill + decode), `pd:2x2+2x2` (COUNTxTP), "
        "`replicas:4x2`, `single:8`; `pd` and `single` take the profile's sizes, `auto` what `dsv4-pd tune` chose, "
        "else the profile's layout (docs/layouts.md).",
        consumer="serve: which servers there are, on how many GPUs each",
        section=Section.WHAT,
    )
    profile: Annotated[str, WORD] = setting(
        "auto",
        description="Hardware profile, a file in config/profiles; `auto` chooses one for the GPUs found.",
        consumer="serve: a file of config/profiles",
    )
    preset: Annotated[Literal["chat", "agent", "long-context", "throughput"] | None, WORD] = setting(
        None,
        description="Kind of load: fills in context, memory and limits that are not set explicitly (docs/presets.md).",
        consumer="serve: a file of config/presets",
    )
    model: Model = setting(
        "flash-0731",
        description="A name that `dsv4-pd models` lists, OWNER/MODEL on Hugging Face, or a local folder.",
        consumer="serve: the catalogue; the download; engine `--model-path`",
    )
    model_revision: Revision | None = setting(
        None,
        description="Revision (commit) of the model; default: the catalogue's, for a model that it knows.",
        consumer="serve: the download; engine `--model-path`, by its commit's folder",
    )
    served_model_name: ServedName | None = setting(
        None,
        description="Name in the API; default: the model's name.",
        consumer="engine `--served-model-name`",
    )
    chat_template: Template | None = setting(
        None,
        description="Jinja file from which every server makes its prompts, instead of the model's own encoder; in a "
        "container, a path inside it.",
        consumer="engine `--chat-template`, of every server",
    )
    host: Address = setting(
        "0.0.0.0",
        description="Address that the API listens on; with compose, the address that it is published on.",
        consumer="front's listening socket; guard, status, verify, bench",
        section=Section.API,
        hashed=False,
    )
    port: Port = setting(
        8000,
        description="Port of the OpenAI-compatible API.",
        consumer="front's listening socket; guard, verify, bench",
    )
    ops_host: Address = setting(
        "127.0.0.1",
        description="Address of health, status and metrics, in the same way. No key is required.",
        consumer="guard's listening socket; status, verify, bench",
    )
    ops_port: Port = setting(
        8001,
        description="Port of health, status and metrics.",
        consumer="guard's listening socket; status, verify, bench",
    )
    api_key: Key | None = setting(
        None,
        description="Key that clients must send: printable ASCII, no leading or trailing blank. Without one, anyone "
        "who can reach the port is served.",
        consumer="front; engine and router `--api-key`; an HTTP header",
    )
    api_keys_file: File | None = setting(
        None,
        description="Additional keys, each with a name and limits, in a TOML file that is reloaded when it changes "
        "(docs/keys.md). Needs `DSV4_API_KEY`, which the appliance's own programs use.",
        consumer="front",
        hashed=False,
    )
    tls_cert: File | None = setting(
        None,
        description="Certificate chain (PEM) for HTTPS, reloaded when it changes; with `DSV4_TLS_KEY`.",
        consumer="front; guard, verify, bench",
        hashed=False,
    )
    tls_key: File | None = setting(
        None,
        description="The certificate's private key (PEM, without a passphrase).",
        consumer="front",
        hashed=False,
    )
    cors_origins: Origins = setting(
        (),
        description="Origins whose pages may call the API from a browser; `*`: every page. Default: none.",
        consumer="front",
    )
    page: Annotated[Literal["on", "off"], WORD] = setting(
        "on",
        description="The page at `/` of the API's port to try the model in a browser.",
        consumer="front",
    )
    request_log: RequestLog = setting(
        "off",
        description="One line of JSON for each request, without its content: `off`, `stdout` (with the other logs), or "
        "a file that is only appended to.",
        consumer="front",
        hashed=False,
    )
    router: Annotated[Literal["smg", "sglang-router"], WORD] = setting(
        "smg",
        description="The router behind the front; sglang-router lacks /v1/messages and /v1/responses.",
        consumer="serve: which program",
    )
    max_concurrent_requests: Count = setting(
        64,
        description="Maximum concurrent requests; at most `DSV4_MAX_RUNNING_REQUESTS`, because one that "
        "decode cannot take fails after `DSV4_LINK_TIMEOUT`.",
        consumer="front",
    )
    queue_size: Count = setting(
        256,
        description="Requests that may wait at the front; more get a 429.",
        consumer="front",
    )
    max_output_tokens: Count | None = setting(
        None,
        description="Most tokens of one answer, whatever a request asks for; default: what fits the context.",
        consumer="front",
    )
    request_timeout: Seconds = setting(
        1800.0,
        description="Longest time that one request may take.",
        consumer="front; router `--request-timeout-secs`",
    )
    prefill_gpus: GpuList = setting(
        (),
        description="GPUs of prefill: index, UUID or PCI bus id, comma-separated.",
        consumer="serve; CUDA_VISIBLE_DEVICES, engine `--base-gpu-id`",
        section=Section.GPUS,
    )
    decode_gpus: GpuList = setting(
        (),
        description="GPUs of decode, in the same form.",
        consumer="serve; CUDA_VISIBLE_DEVICES, engine `--base-gpu-id`",
    )
    lost_gpus: Annotated[Literal["refuse", "ignore"], WORD] = setting(
        "refuse",
        description="Cards that don't answer while GPUs are chosen by topology: `refuse` to start, or `ignore` them "
        "and start on the ones that are left, if a profile fits.",
        consumer="serve: gpu-visible, asked before each start",
    )
    numa: Annotated[Literal["auto", "strict", "off"], WORD] = setting(
        "auto",
        description="Bind servers to their GPUs' NUMA node; `strict` refuses to start unbound.",
        consumer="serve; numactl, engine `--numa-node`",
    )
    min_vram_gb: Gigabytes | None = setting(
        None,
        description="Minimum memory of a GPU (GB); default: the profile's.",
        consumer="serve: which GPUs count",
    )
    context_length: Context = setting(
        524288,
        description="Longest prompt plus answer, in tokens.",
        consumer="engine `--context-length`; front; router `--max-payload-size`",
        section=Section.MEMORY,
    )
    prefill_mem_fraction: Fraction = setting(
        0.80,
        description="Share of GPU memory for prefill's weights and KV.",
        consumer="engine `--mem-fraction-static`",
    )
    decode_mem_fraction: Fraction = setting(
        0.85,
        description="Share of GPU memory for decode's weights and KV.",
        consumer="engine `--mem-fraction-static`",
    )
    swa_full_tokens_ratio: Fraction | None = setting(
        None,
        description="Sliding-window slots per token of KV cache; default: the smallest that serves "
        "`DSV4_MAX_RUNNING_REQUESTS`, which leaves the most tokens.",
        consumer="engine `--swa-full-tokens-ratio`",
    )
    chunked_prefill_size: Count = setting(
        8192,
        description="Tokens prefilled in one step.",
        consumer="engine `--chunked-prefill-size`",
    )
    max_running_requests: Count = setting(
        64,
        description="Maximum number of requests that are decoded together.",
        consumer="engine `--max-running-requests`, `--cuda-graph-max-bs-decode`",
    )
    kv_offload_gb: Gigabytes | None = setting(
        None,
        description="Host memory (GB) of each server that prefills, for the KV cache of prompts that may come back "
        "once the cards are full; unset: none (docs/offload.md).",
        consumer="engine `--enable-hierarchical-cache`, `--hicache-ratio`; serve: host-memory",
    )
    kernels: Annotated[Literal["auto", "stock"], WORD] = setting(
        "auto",
        description="`auto`: our sm_120 kernels (docs/kernels) where they are installed; `stock`: the engine's own.",
        consumer="the engine's plugins",
        section=Section.KERNELS,
    )
    pcie_allreduce: Annotated[Literal["auto", "on", "off"], WORD] = setting(
        "auto",
        description="The engine's all-reduce over PCIe peer copies; `off` leaves NCCL.",
        consumer="engine SGLANG_ENABLE_PCIE_IPC_ALLREDUCE",
    )
    speculative: Annotated[Literal["auto", "off", "eagle", "dspark"], WORD] = setting(
        "off",
        description="Speculative decoding: `auto` takes DSpark where the checkpoint has the block; `dspark`, `eagle` "
        "are refused where it has none.",
        consumer="serve: what the checkpoint has; engine `--speculative-algorithm`",
    )
    warm_up: Annotated[Literal["auto", "off"], WORD] = setting(
        "auto",
        description="`auto`: before READY each server runs every class of request once, so that no client waits for a "
        "compiler; `off`: the first clients do.",
        consumer="guard",
    )
    cache_strict: Annotated[Literal["off", "on"], WORD] = setting(
        "off",
        description="`on`: a kernel that is compiled at run time ends the appliance; for tests of a release.",
        consumer="guard",
    )
    start_timeout: Seconds = setting(
        3600.0,
        description="Longest time from start to READY.",
        consumer="guard; router `--worker-startup-timeout-secs`",
        section=Section.LIFECYCLE,
    )
    stall_timeout: Duration = setting(
        300.0,
        description="A start without progress for this long counts as hung.",
        consumer="guard",
    )
    download_stall_timeout: Duration = setting(
        600.0,
        description="A download that brings no new byte for this long, however often it is tried again, ends the "
        "start; the next start resumes it. A wait that the Hub asks for does not count.",
        consumer="serve: the download",
    )
    restart_limit: Count = setting(
        3,
        description="Restarts within the window before the appliance gives up.",
        consumer="guard",
    )
    restart_window: Duration = setting(
        1800.0,
        description="The window of the restart budget.",
        consumer="guard",
    )
    drain_timeout: Seconds = setting(
        30.0,
        description="How long a stop waits for requests in flight.",
        consumer="guard; front; router `--shutdown-grace-period-secs`",
    )
    link_timeout: Seconds = setting(
        600.0,
        description="How long one role of the pair waits for its peer before the request fails; prefill's queue and "
        "computing count, so longer than the longest prompt takes.",
        consumer="engine SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT, ..._WAITING_TIMEOUT",
    )
    safe_mode: Annotated[Literal["auto", "off", "on"], WORD] = setting(
        "auto",
        description="`auto`: stay up, unhealthy, after repeated failed starts; `off`: always exit.",
        consumer="guard",
    )
    prefill_extra_args: ExtraArgs = setting(
        "",
        description="Additional flags for the prefill server, as shell words.",
        consumer="engine's command line",
        section=Section.EXTRA_ARGUMENTS,
    )
    decode_extra_args: ExtraArgs = setting(
        "",
        description="Additional flags for the decode server.",
        consumer="engine's command line",
    )
    router_extra_args: ExtraArgs = setting(
        "",
        description="Additional flags for the router.",
        consumer="router's command line",
    )
    log_format: Annotated[Literal["auto", "text", "json"], WORD] = setting(
        "auto",
        description="`auto`: text on a terminal, JSON lines elsewhere.",
        consumer="serve: the console",
        section=Section.LOGS,
        hashed=False,
    )
    log_level: Annotated[Literal["debug", "info", "warning", "error"], WORD] = setting(
        "info",
        description="Log level of the appliance and the servers.",
        consumer="engine and router `--log-level`; the console",
    )
    prefill_port: Port = setting(
        30000,
        description="Prefill's HTTP port on loopback (`single` uses it too).",
        consumer="engine `--port`; router `--prefill`",
        section=Section.INTERNALS,
    )
    decode_port: Port = setting(
        30001,
        description="Decode's HTTP port on loopback.",
        consumer="engine `--port`; router `--decode`",
    )
    bootstrap_port: Port = setting(
        8998,
        description="Prefill's bootstrap port, where decode finds it.",
        consumer="engine `--disaggregation-bootstrap-port`; router `--prefill`",
    )
    prefill_nccl_port: Port = setting(
        30335,
        description="NCCL rendezvous of prefill.",
        consumer="engine `--nccl-port`",
    )
    decode_nccl_port: Port = setting(
        30435,
        description="NCCL rendezvous of decode.",
        consumer="engine `--nccl-port`",
    )
    router_port: Port = setting(
        29001,
        description="The router's HTTP port on loopback, behind the front.",
        consumer="router `--port`; front, guard",
    )
    front_metrics_port: Port = setting(
        29002,
        description="The front's metrics on loopback.",
        consumer="front; guard",
    )
    router_metrics_port: Port = setting(
        29000,
        description="The router's metrics on loopback.",
        consumer="router `--prometheus-port`; guard",
    )
    run_dir: RunFolder | None = setting(
        None,
        description="Sockets, logs and generated files; default: /run/dsv4-pd where writable.",
        consumer="serve, guard, health; a socket's path",
        hashed=False,
    )
    state_dir: Folder | None = setting(
        None,
        description="What survives a container: start times, failed starts; default: /var/lib/dsv4-pd.",
        consumer="serve, guard",
        hashed=False,
    )
    cache_dir: Folder | None = setting(
        None,
        description="Compiled kernels; default: a folder below the state folder.",
        consumer="engine SGLANG_CACHE_DIR and others",
        hashed=False,
    )
    engine_python: Interpreter = setting(
        default_factory=lambda: _venv("engine"),
        description="Python interpreter with SGLang.",
        consumer="supervisord: the engine's interpreter",
        hashed=False,
    )
    router_python: Interpreter | None = setting(
        None,
        description="Python interpreter with the router; default: by DSV4_ROUTER.",
        consumer="supervisord: the router's interpreter",
        hashed=False,
    )

    def with_defaults(self, defaults: Mapping[str, Any]) -> Settings:
        """A profile's defaults for every setting that the operator left unset."""
        return self.model_copy(update={k: v for k, v in defaults.items() if k not in self.model_fields_set})

    @property
    def deprecated(self) -> Mapping[str, str]:
        """Old names that set something here -> what to write instead."""
        return self._deprecated

    def telling(self, deprecated_names: Mapping[str, str]) -> Settings:
        """The same, read under these old names."""
        told = self.model_copy()
        told._deprecated = dict(deprecated_names)
        return told

    def variable(self, field: str) -> str:
        """The variable that set a field: its own, or the old name that the operator used."""
        name = env_name(field)
        return next((old for old in deprecated.old_names(name) if old in self._deprecated), name)

    def extra_args(self, role: str) -> str:
        """The operator's further flags for a server in this role; one that does both is told prefill's."""
        return self.decode_extra_args if role == "decode" else self.prefill_extra_args


# Fields whose value no text may show; each may also come from a file.
SECRETS = tuple(name for name, info in Settings.model_fields.items() if is_secret(info.annotation))
# Fields in seconds, written as 90s, 60m or 1h.
DURATIONS = frozenset(
    name for name, info in Settings.model_fields.items() if any(is_duration(item) for item in info.metadata)
)


def names() -> tuple[str, ...]:
    """Every `DSV4_*` variable that is understood, `_FILE` forms and old names included."""
    return (*present_names(), *(one.old for one in deprecated.SETTINGS))


def present_names() -> tuple[str, ...]:
    """The same without old names."""
    plain = tuple(env_name(field) for field in Settings.model_fields)
    return plain + tuple(env_name(field) + "_FILE" for field in SECRETS)


def env_name(field: str) -> str:
    """The variable that sets a field.

    >>> env_name("port")
    'DSV4_PORT'
    """
    return PREFIX + field.upper()
