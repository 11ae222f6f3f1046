"""Flags that the appliance owns: an extra argument may not set them behind the plan's back.

A later flag wins silently in argparse, so `--port` in the extra arguments would move a server away from the router
(NVIDIA/srt-slurm PR#155). argparse also takes unique prefixes, so `--disaggregation-boot` counts too. What both
roles must agree on is owned as well: a page size or KV type on one side only kills decode at the first request.
"""

from __future__ import annotations

import shlex

# flag -> the setting that does it, or why it can't be set
ENGINE_OWNED = {
    "--model-path": "DSV4_MODEL",
    "--model": "DSV4_MODEL",
    "--revision": "DSV4_MODEL_REVISION",
    "--tokenizer-path": "DSV4_MODEL",
    "--served-model-name": "DSV4_SERVED_MODEL_NAME",
    "--host": "loopback by design",
    "--port": "DSV4_PREFILL_PORT and DSV4_DECODE_PORT",
    "--nccl-port": "DSV4_PREFILL_NCCL_PORT and DSV4_DECODE_NCCL_PORT",
    "--config": "the plan writes it",
    "--api-key": "DSV4_API_KEY",
    "--tp-size": "DSV4_PREFILL_GPUS and DSV4_DECODE_GPUS",
    "--tensor-parallel-size": "DSV4_PREFILL_GPUS and DSV4_DECODE_GPUS",
    "--tp": "DSV4_PREFILL_GPUS and DSV4_DECODE_GPUS",
    "--base-gpu-id": "DSV4_PREFILL_GPUS and DSV4_DECODE_GPUS",
    "--gpu-id-step": "the placement",
    "--numa-node": "DSV4_NUMA",
    "--device": "DSV4_PROFILE",
    "--context-length": "DSV4_CONTEXT_LENGTH",
    "--page-size": "both roles must agree",
    "--kv-cache-dtype": "both roles must agree",
    "--mem-fraction-static": "DSV4_PREFILL_MEM_FRACTION and DSV4_DECODE_MEM_FRACTION",
    "--chunked-prefill-size": "DSV4_CHUNKED_PREFILL_SIZE",
    "--max-running-requests": "DSV4_MAX_RUNNING_REQUESTS",
    "--reasoning-parser": "both roles must agree",
    "--tool-call-parser": "both roles must agree",
    "--enable-metrics": "always on",
    "--disaggregation-mode": "DSV4_MODE",
    "--disaggregation-transfer-backend": "always nixl",
    "--disaggregation-bootstrap-port": "DSV4_BOOTSTRAP_PORT",
    "--enable-pd-role-switch": "the roles are fixed",
    "--speculative-algorithm": "DSV4_SPECULATIVE",
    "--dist-init-addr": "one host by design",
    "--nccl-init-addr": "one host by design",
}
ROUTER_OWNED = {
    "--host": "DSV4_HOST",
    "--port": "DSV4_PORT",
    "--pd-disaggregation": "DSV4_MODE",
    "--prefill": "DSV4_PREFILL_PORT",
    "--decode": "DSV4_DECODE_PORT",
    "--worker-urls": "DSV4_PREFILL_PORT",
    "--api-key": "DSV4_API_KEY",
    "--control-plane-api-keys": "the guard alone has that key",
    "--max-payload-size": "DSV4_CONTEXT_LENGTH",
    "--prometheus-port": "DSV4_ROUTER_METRICS_PORT",
    "--prometheus-host": "loopback by design",
    "--disable-circuit-breaker": "always set",
    "--disable-retries": "always set",
    "--health-check-endpoint": "always /ready",
    "--request-timeout-secs": "DSV4_REQUEST_TIMEOUT",
    "--queue-size": "DSV4_QUEUE_SIZE",
    "--rate-limit-tokens-per-second": "part of the limit",
    "--max-concurrent-requests": "DSV4_MAX_CONCURRENT_REQUESTS",
    "--shutdown-grace-period-secs": "DSV4_DRAIN_TIMEOUT",
}


def owned(text: str, table: dict[str, str]) -> list[tuple[str, str]]:
    """(flag as written, who owns it) for each owned flag among the shell words.

    >>> owned("--log-requests --port=80", ENGINE_OWNED)
    [('--port', 'DSV4_PREFILL_PORT and DSV4_DECODE_PORT')]
    """
    found = []
    for word in shlex.split(text):
        flag = word.split("=", 1)[0].replace("_", "-")
        if len(flag) < 4 or not flag.startswith("--"):
            continue
        match = flag if flag in table else next((name for name in table if name.startswith(flag)), None)
        if match:
            found.append((flag, table[match]))
    return found


def _check(text: str, table: dict[str, str]) -> str:
    try:
        taken = owned(text, table)
    except ValueError as error:  # an open quote
        raise ValueError(f"shell words ({error})") from error
    if taken:
        listed = ", ".join(f"{flag} ({owner})" for flag, owner in taken)
        raise ValueError(f"flags that the appliance does not own; it owns {listed}")
    return text


def check_engine_args(text: str) -> str:
    """Validate DSV4_PREFILL_EXTRA_ARGS or DSV4_DECODE_EXTRA_ARGS; raises ValueError naming each owned flag."""
    return _check(text, ENGINE_OWNED)


def check_router_args(text: str) -> str:
    """Validate DSV4_ROUTER_EXTRA_ARGS; raises ValueError naming each owned flag."""
    return _check(text, ROUTER_OWNED)
