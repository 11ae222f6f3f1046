"""Who takes each setting, and under which name: the second column of the table in docs/env.md.

The rule itself is the field's type. `engine` is SGLang's server, `router` whichever DSV4_ROUTER names, `guard` and
`serve` are ours.
"""

from __future__ import annotations

import typing
from typing import Any, Literal

from dsv4_pd.settings.fields import KEY_ACCEPTS, WORD
from dsv4_pd.settings.rule import Rule
from dsv4_pd.settings.schema import SECRETS, Settings

CONSUMERS = {
    "layout": "serve: which servers there are, on how many GPUs each",
    "profile": "serve: a file of config/profiles",
    "preset": "serve: a file of config/presets",
    "model": "serve: the catalogue; the download; engine `--model-path`",
    "model_revision": "serve: the download; engine `--model-path`, by its commit's folder",
    "served_model_name": "engine `--served-model-name`",
    "chat_template": "engine `--chat-template`, of every server",
    "host": "front's listening socket; guard, status, verify, bench",
    "port": "front's listening socket; guard, verify, bench",
    "ops_host": "guard's listening socket; status, verify, bench",
    "ops_port": "guard's listening socket; status, verify, bench",
    "api_key": "front; engine and router `--api-key`; an HTTP header",
    "api_keys_file": "front",
    "tls_cert": "front; guard, verify, bench",
    "tls_key": "front",
    "cors_origins": "front",
    "page": "front",
    "request_log": "front",
    "router": "serve: which program",
    "max_concurrent_requests": "front",
    "queue_size": "front",
    "max_output_tokens": "front",
    "request_timeout": "front; router `--request-timeout-secs`",
    "prefill_gpus": "serve; CUDA_VISIBLE_DEVICES, engine `--base-gpu-id`",
    "decode_gpus": "serve; CUDA_VISIBLE_DEVICES, engine `--base-gpu-id`",
    "lost_gpus": "serve: gpu-visible, asked before each start",
    "numa": "serve; numactl, engine `--numa-node`",
    "min_vram_gb": "serve: which GPUs count",
    "context_length": "engine `--context-length`; front; router `--max-payload-size`",
    "prefill_mem_fraction": "engine `--mem-fraction-static`",
    "decode_mem_fraction": "engine `--mem-fraction-static`",
    "swa_full_tokens_ratio": "engine `--swa-full-tokens-ratio`",
    "chunked_prefill_size": "engine `--chunked-prefill-size`",
    "max_running_requests": "engine `--max-running-requests`, `--cuda-graph-max-bs-decode`",
    "kv_offload_gb": "engine `--enable-hierarchical-cache`, `--hicache-ratio`; serve: host-memory",
    "kernels": "the engine's plugins",
    "pcie_allreduce": "engine SGLANG_ENABLE_PCIE_IPC_ALLREDUCE",
    "speculative": "serve: what the checkpoint has; engine `--speculative-algorithm`",
    "start_timeout": "guard; router `--worker-startup-timeout-secs`",
    "stall_timeout": "guard",
    "download_stall_timeout": "serve: the download",
    "restart_limit": "guard",
    "restart_window": "guard",
    "drain_timeout": "guard; front; router `--shutdown-grace-period-secs`",
    "link_timeout": "engine SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT, ..._WAITING_TIMEOUT",
    "safe_mode": "guard",
    "prefill_extra_args": "engine's command line",
    "decode_extra_args": "engine's command line",
    "router_extra_args": "router's command line",
    "log_format": "serve: the console",
    "log_level": "engine and router `--log-level`; the console",
    "role": "serve: which programs; guard",
    "address": "engine `--host`, SGLANG_HOST_IP; guard",
    "net_devices": "engine UCX_NET_DEVICES, UCX_TLS",
    "member_key": "engine and router `--api-key`; front, guard: an HTTP header",
    "prefills": "guard, which tells the router",
    "decodes": "guard, which tells the router",
    "prefill_port": "engine `--port`; router `--prefill`",
    "decode_port": "engine `--port`; router `--decode`",
    "bootstrap_port": "engine `--disaggregation-bootstrap-port`; router `--prefill`",
    "prefill_nccl_port": "engine `--nccl-port`",
    "decode_nccl_port": "engine `--nccl-port`",
    "router_port": "router `--port`; front, guard",
    "front_metrics_port": "front; guard",
    "router_metrics_port": "router `--prometheus-port`; guard",
    "run_dir": "serve, guard, health; a socket's path",
    "state_dir": "serve, guard",
    "cache_dir": "engine SGLANG_CACHE_DIR and others",
    "warm_up": "guard",
    "cache_strict": "guard",
    "engine_python": "supervisord: the engine's interpreter",
    "router_python": "supervisord: the router's interpreter",
}


def accepts(field: str) -> str:
    """What a setting's own rule accepts, in its words.

    >>> accepts("port"), accepts("numa")
    ('a port from 1 to 65535, in digits', 'auto, strict or off, in any case')
    """
    if field in SECRETS:
        return KEY_ACCEPTS
    info = Settings.model_fields[field]
    rule = _rule_of(info.metadata) or _rule_of(_nested(info.annotation))
    if rule is None:
        raise LookupError(f"{field} has no rule")
    choices = [word for part in _parts(info.annotation) for word in typing.get_args(part)]
    if rule is WORD:
        return f"{', '.join(choices[:-1])} or {choices[-1]}, in any case" if choices else "one word, in any case"
    return rule.accepts


def _rule_of(metadata: Any) -> Rule | None:
    return next((item for item in metadata if isinstance(item, Rule)), None)


def _nested(annotation: Any) -> list[Any]:
    """Metadata of the types that a union is made of: `Annotated[...] | None` keeps its own."""
    return [item for part in typing.get_args(annotation) for item in getattr(part, "__metadata__", ())]


def _parts(annotation: Any) -> list[Any]:
    return [part for part in (annotation, *typing.get_args(annotation)) if typing.get_origin(part) is Literal]
