"""Targets that lead, or seem to lead, from the API to what is not the API."""

from __future__ import annotations

from collections.abc import Iterator

# Of the routers, of the engines, of the guard. None of them is a client's.
CONTROL = ("/workers", "/flush_cache", "/get_loads", "/v1/tokenizers", "/wasm", "/abort_request", "/pause_generation",
           "/update_weights_from_disk", "/release_memory_occupation", "/start_profile", "/set_internal_state",
           "/configure_logging", "/add_worker", "/list_workers", "/get_internal_state", "/server_info", "/metrics",
           "/status", "/load", "/route", "/register_dp_rank", "/freeze_gc", "/open_session", "/load_lora_adapter",
           "/ha/shutdown", "/slow_down", "/clear_hicache_storage_backend",
           "/dump_expert_distribution_record")  # fmt: skip


def spellings(path: str) -> Iterator[str]:
    """One path as routers may read it and a filter before them may not."""
    bare = path.lstrip("/")
    first, rest = bare[0], bare[1:]
    yield path
    yield f"//{bare}"
    yield f"/./{bare}"
    yield f"/{bare}/"
    yield f"/v1/../{bare}"
    yield f"/v1/chat/completions/../../../{bare}"
    yield f"/v1/%2e%2e/{bare}"
    yield f"/v1/..%2f{bare}"
    yield f"/v1%2f..%2f{bare}"
    yield f"/v1/..%5c{bare}"
    yield f"/v1/..%252f{bare}"
    yield f"/%{ord(first):02x}{rest}"
    yield f"/{bare.upper()}"
    yield f"/{bare};x=y"
    yield f"/{bare}%00"
    yield f"/{bare}%20"
    yield f"/{bare}?x=/v1/models"
    yield f"/{bare}#x"
    yield f"/v1/models/../../{bare}"
    yield f"/\\{bare}"


def absolute(port: int, path: str) -> Iterator[str]:
    """The target names another server: what would ask it is a proxy for everybody."""
    yield f"http://127.0.0.1:{port}{path}"
    yield f"http://localhost:{port}{path}"
    yield f"HTTP://user:secret@127.0.0.1:{port}{path}"
    yield f"http://[::1]:{port}{path}"
