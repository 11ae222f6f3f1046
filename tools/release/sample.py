"""A published document in which every metric of ours has a series: a card with all its figures, several paths,
a download. tests/tools/test_promises.py compares it with docs/metrics.md, so that a new metric can't be forgotten here.
"""

from __future__ import annotations

from typing import Any

TEXTS: dict[str, str | None] = {
    "prefill": "sglang:kv_transfer_total_mb_count 4.0\nsglang:kv_transfer_total_mb_sum 0.5\n"
    "sglang:kv_transfer_speed_gb_s_count 4.0\nsglang:kv_transfer_speed_gb_s_sum 8.0\n"
}
_CARD = {
    "uuid": "GPU-1", "used_bytes": 1, "total_bytes": 2, "used_gb": 0.1, "total_gb": 0.2, "power_w": 1.0,
    "power_limit_w": 2.0, "temperature_c": 1.0, "utilization": 0.5, "memory_utilization": 0.5, "ecc_uncorrected": 0,
    "rows_pending": 0, "rows_failed": 0, "pcie_tx_bytes_per_s": 1.0, "pcie_rx_bytes_per_s": 1.0, "xids": {"31": 1},
}  # fmt: skip
_SERVER = {
    "role": "prefill", "ready": True, "restarts": 0, "kv_capacity_tokens": 1, "gpu_memory": [_CARD],
    "phase_times": {"weights": 1.0, "ready": 2.0}, "warm_up": {"done": 1, "failed": [], "left": 0, "seconds": 1.0},
}  # fmt: skip
_COMPILED = {"member": "prefill", "system": "triton", "kernel": "k", "count": 1, "seconds": 1.0, "since_ready": 0}


def document() -> dict[str, Any]:
    """As health.json has it."""
    return {
        "state": "READY", "serving": True, "since": 1.0, "heartbeat": 2.0, "version": "1", "mode": "pd", "profile": "p",
        "model": "m", "roles": {"prefill": _SERVER}, "restarts": {"spent": 0, "limit": 3, "window_s": 1.0},
        "canary": {"proved_s_ago": 1.0, "failures": 0, "seconds": 0.1},
        "paths": [{"members": ["prefill", "decode"], "proved_s_ago": 1.0, "failures": 0}],
        "download": {"total_bytes": 2, "done_bytes": 1, "checked_bytes": 1, "bytes_per_s": 1.0, "eta_s": 1.0},
        "compiles": {"kernels": [_COMPILED], "from_cache": [{"member": "prefill", "system": "triton", "count": 1}]},
    }  # fmt: skip
