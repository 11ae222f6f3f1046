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

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, SecretStr

from dsv4_pd.settings import deprecated
from dsv4_pd.settings.fields import (
    WORD,
    Address,
    Context,
    Count,
    Decodes,
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
    NetDevices,
    Origins,
    OwnAddress,
    Port,
    Prefills,
    RequestLog,
    Revision,
    RunFolder,
    Seconds,
    ServedName,
    Template,
    is_duration,
)
from dsv4_pd.settings.layout import ContainerRole

PREFIX = "DSV4_"
# Names that the first compose.yaml read. They mean nothing natively, where another tool may use them.
COMPOSE_RENAMED = {"API_KEY_FILE": "DSV4_API_KEY_FILE", "API_BIND": "DSV4_HOST", "OPS_BIND": "DSV4_OPS_HOST"}
COMPOSE_VERSION = "DSV4_COMPOSE_VERSION"  # set by compose.yaml alone
# Read by the image, the compose file or the engine's plugins, not by the control plane; allowed, never typos.
FOREIGN = frozenset({"DSV4_IMAGE", COMPOSE_VERSION, "DSV4_PLUGIN_RECORD_DIR", "DSV4_CPU_PD_CORRUPT"})
SECRETS = ("api_key", "member_key")


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

    # what
    layout: LayoutText = Field(
        None,
        description="Which servers on how many GPUs: `pd:4+4` (prefill + decode), `pd:2x2+2x2` (COUNTxTP), "
        "`replicas:4x2`, `single:8`; `pd` and `single` take the profile's sizes, `auto` what `dsv4-pd tune` chose, "
        "else the profile's layout (docs/layouts.md).",
    )
    profile: Annotated[str, WORD] = Field(
        "auto", description="Hardware profile, a file in config/profiles; `auto` chooses one for the GPUs found."
    )
    preset: Annotated[Literal["chat", "agent", "long-context", "throughput"] | None, WORD] = Field(
        None,
        description="Kind of load: fills in context, memory and limits that are not set explicitly (docs/presets.md).",
    )
    model: Model = Field(
        "flash-0731", description="A name that `dsv4-pd models` lists, OWNER/MODEL on Hugging Face, or a local folder."
    )
    model_revision: Revision | None = Field(
        None, description="Revision (commit) of the model; default: the catalogue's, for a model that it knows."
    )
    served_model_name: ServedName | None = Field(None, description="Name in the API; default: the model's name.")
    chat_template: Template | None = Field(
        None,
        description="Jinja file from which every server makes its prompts, instead of the model's own encoder; in a "
        "container, a path inside it.",
    )
    # API
    host: Address = Field(
        "0.0.0.0", description="Address that the API listens on; with compose, the address that it is published on."
    )
    port: Port = Field(8000, description="Port of the OpenAI-compatible API.")
    ops_host: Address = Field(
        "127.0.0.1", description="Address of health, status and metrics, in the same way. No key is required."
    )
    ops_port: Port = Field(8001, description="Port of health, status and metrics.")
    api_key: Key | None = Field(
        None,
        description="Key that clients must send: printable ASCII, no leading or trailing blank. Without one, anyone "
        "who can reach the port is served.",
    )
    api_keys_file: File | None = Field(
        None,
        description="Additional keys, each with a name and limits, in a TOML file that is reloaded when it changes "
        "(docs/keys.md). Needs `DSV4_API_KEY`, which the appliance's own programs use.",
    )
    tls_cert: File | None = Field(
        None, description="Certificate chain (PEM) for HTTPS, reloaded when it changes; with `DSV4_TLS_KEY`."
    )
    tls_key: File | None = Field(None, description="The certificate's private key (PEM, without a passphrase).")
    cors_origins: Origins = Field(
        (), description="Origins whose pages may call the API from a browser; `*`: every page. Default: none."
    )
    page: Annotated[Literal["on", "off"], WORD] = Field(
        "on", description="The page at `/` of the API's port to try the model in a browser."
    )
    request_log: RequestLog = Field(
        "off",
        description="One line of JSON for each request, without its content: `off`, `stdout` (with the other logs), or "
        "a file that is only appended to.",
    )
    router: Annotated[Literal["smg", "sglang-router"], WORD] = Field(
        "smg", description="The router behind the front; sglang-router lacks /v1/messages and /v1/responses."
    )
    max_concurrent_requests: Count = Field(
        64,
        description="Maximum concurrent requests; at most `DSV4_MAX_RUNNING_REQUESTS`, because one that "
        "decode cannot take fails after `DSV4_LINK_TIMEOUT`.",
    )
    queue_size: Count = Field(256, description="Requests that may wait at the front; more get a 429.")
    max_output_tokens: Count | None = Field(
        None, description="Most tokens of one answer, whatever a request asks for; default: what fits the context."
    )
    request_timeout: Seconds = Field(1800.0, description="Longest time that one request may take.")
    # GPUs
    prefill_gpus: GpuList = Field((), description="GPUs of prefill: index, UUID or PCI bus id, comma-separated.")
    decode_gpus: GpuList = Field((), description="GPUs of decode, in the same form.")
    lost_gpus: Annotated[Literal["refuse", "ignore"], WORD] = Field(
        "refuse",
        description="Cards that don't answer while GPUs are chosen by topology: `refuse` to start, or `ignore` them "
        "and start on the ones that are left, if a profile fits.",
    )
    numa: Annotated[Literal["auto", "strict", "off"], WORD] = Field(
        "auto", description="Bind servers to their GPUs' NUMA node; `strict` refuses to start unbound."
    )
    min_vram_gb: Gigabytes | None = Field(None, description="Minimum memory of a GPU (GB); default: the profile's.")
    # memory
    context_length: Context = Field(524288, description="Longest prompt plus answer, in tokens.")
    prefill_mem_fraction: Fraction = Field(0.80, description="Share of GPU memory for prefill's weights and KV.")
    decode_mem_fraction: Fraction = Field(0.85, description="Share of GPU memory for decode's weights and KV.")
    swa_full_tokens_ratio: Fraction | None = Field(
        None,
        description="Sliding-window slots per token of KV cache; default: the smallest that serves "
        "`DSV4_MAX_RUNNING_REQUESTS`, which leaves the most tokens.",
    )
    chunked_prefill_size: Count = Field(8192, description="Tokens prefilled in one step.")
    max_running_requests: Count = Field(64, description="Maximum number of requests that are decoded together.")
    kv_offload_gb: Gigabytes | None = Field(
        None,
        description="Host memory (GB) of each server that prefills, for the KV cache of prompts that may come back "
        "once the cards are full; unset: none (docs/offload.md).",
    )
    # kernels
    kernels: Annotated[Literal["auto", "stock"], WORD] = Field(
        "auto",
        description="`auto`: our sm_120 kernels (docs/kernels) where they are installed; `stock`: the engine's own.",
    )
    pcie_allreduce: Annotated[Literal["auto", "on", "off"], WORD] = Field(
        "auto", description="The engine's all-reduce over PCIe peer copies; `off` leaves NCCL."
    )
    speculative: Annotated[Literal["auto", "off", "eagle", "dspark"], WORD] = Field(
        "off",
        description="Speculative decoding: `auto` takes DSpark where the checkpoint has the block; `dspark`, `eagle` "
        "are refused where it has none.",
    )
    warm_up: Annotated[Literal["auto", "off"], WORD] = Field(
        "auto",
        description="`auto`: before READY each server runs every class of request once, so that no client waits for a "
        "compiler; `off`: the first clients do.",
    )
    cache_strict: Annotated[Literal["off", "on"], WORD] = Field(
        "off", description="`on`: a kernel that is compiled at run time ends the appliance; for tests of a release."
    )
    # lifecycle
    start_timeout: Seconds = Field(3600.0, description="Longest time from start to READY.")
    stall_timeout: Duration = Field(300.0, description="A start without progress for this long counts as hung.")
    download_stall_timeout: Duration = Field(
        600.0,
        description="A download that brings no new byte for this long, however often it is tried again, ends the "
        "start; the next start resumes it. A wait that the Hub asks for does not count.",
    )
    restart_limit: Count = Field(3, description="Restarts within the window before the appliance gives up.")
    restart_window: Duration = Field(1800.0, description="The window of the restart budget.")
    drain_timeout: Seconds = Field(30.0, description="How long a stop waits for requests in flight.")
    link_timeout: Seconds = Field(
        600.0,
        description="How long one role of the pair waits for its peer before the request fails; prefill's queue and "
        "computing count, so longer than the longest prompt takes.",
    )
    safe_mode: Annotated[Literal["auto", "off", "on"], WORD] = Field(
        "auto", description="`auto`: stay up, unhealthy, after repeated failed starts; `off`: always exit."
    )
    # escape
    prefill_extra_args: ExtraArgs = Field("", description="Additional flags for the prefill server, as shell words.")
    decode_extra_args: ExtraArgs = Field("", description="Additional flags for the decode server.")
    router_extra_args: ExtraArgs = Field("", description="Additional flags for the router.")
    # logs
    log_format: Annotated[Literal["auto", "text", "json"], WORD] = Field(
        "auto", description="`auto`: text on a terminal, JSON lines elsewhere."
    )
    log_level: Annotated[Literal["debug", "info", "warning", "error"], WORD] = Field(
        "info", description="Log level of the appliance and the servers."
    )
    # several hosts (docs/many-hosts.md)
    role: Annotated[ContainerRole, WORD] = Field(
        "all", description="What this container is of an appliance on several hosts; `all`: the whole of it, on one."
    )
    address: OwnAddress | None = Field(
        None,
        description="Own address of a prefill or decode, which the router and its peers reach; default: that of the "
        "first of `DSV4_NET_DEVICES`.",
    )
    net_devices: NetDevices = Field(
        (), description="Devices that the KV cache crosses between hosts; default: the interface of `DSV4_ADDRESS`."
    )
    member_key: Key | None = Field(
        None,
        description="Key between router and members, the same for all; required where one is beyond loopback. "
        "`DSV4_API_KEY` stays the clients' own.",
    )
    prefills: Prefills = Field((), description="The prefills that a router has.")
    decodes: Decodes = Field((), description="The decodes that a router has.")
    # internals: only a second appliance on the same host needs other values
    prefill_port: Port = Field(30000, description="Prefill's HTTP port on loopback (`single` uses it too).")
    decode_port: Port = Field(30001, description="Decode's HTTP port on loopback.")
    bootstrap_port: Port = Field(8998, description="Prefill's bootstrap port, where decode finds it.")
    prefill_nccl_port: Port = Field(30335, description="NCCL rendezvous of prefill.")
    decode_nccl_port: Port = Field(30435, description="NCCL rendezvous of decode.")
    router_port: Port = Field(29001, description="The router's HTTP port on loopback, behind the front.")
    front_metrics_port: Port = Field(29002, description="The front's metrics on loopback.")
    router_metrics_port: Port = Field(29000, description="The router's metrics on loopback.")
    run_dir: RunFolder | None = Field(
        None, description="Sockets, logs and generated files; default: /run/dsv4-pd where writable."
    )
    state_dir: Folder | None = Field(
        None, description="What survives a container: start times, failed starts; default: /var/lib/dsv4-pd."
    )
    cache_dir: Folder | None = Field(None, description="Compiled kernels; default: a folder below the state folder.")
    engine_python: Interpreter = Field(
        default_factory=lambda: _venv("engine"), description="Python interpreter with SGLang."
    )
    router_python: Interpreter | None = Field(
        None, description="Python interpreter with the router; default: by DSV4_ROUTER."
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

    @property
    def inner_key(self) -> SecretStr | None:
        """What router and servers ask of each other: the clients' key on one host, a key of their own on several."""
        return self.api_key if self.role == "all" else self.member_key

    @property
    def secrets(self) -> tuple[str, ...]:
        """The text of every secret that is set."""
        found: list[SecretStr | None] = [getattr(self, field) for field in SECRETS]
        return tuple(secret.get_secret_value() for secret in found if secret is not None)

    def extra_args(self, role: str) -> str:
        """The operator's further flags for a server in this role; one that does both is told prefill's."""
        return self.decode_extra_args if role == "decode" else self.prefill_extra_args


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
