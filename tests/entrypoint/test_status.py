"""The terminal view of a running appliance, drawn from documents."""

from __future__ import annotations

import io
from typing import Any

from dsv4_pd.cli.status_view import view
from rich.console import Console

STATUS: dict[str, Any] = {
    "state": "READY",
    "reason": "prefill to decode proved through the router",
    "roles": {
        "prefill": {"phase": "ready", "ready": True, "elapsed_s": 61.0, "restarts": 0,
                    "gpu_memory": [{"uuid": "GPU-aaaaaaaa-1", "used_gb": 90.0, "total_gb": 100.0}]},
        "decode": {"phase": "ready", "ready": True, "elapsed_s": 61.0, "restarts": 2},
    },
    "canary": {"proved_s_ago": 3.2},
    "events": [{"time": 0, "from": "WARMING", "to": "READY", "reason": "proved"}],
}  # fmt: skip


def reading(moment: float, tokens: float) -> dict[str, Any]:
    role = {"running": 3, "queued": 1, "output_tokens": tokens, "prompt_tokens": 0, "requests": 1, "kv_use": 0.25}
    return {"time": moment, "roles": {"prefill": None, "decode": role},
            "link": {"transfers": 12, "bytes": 3e9, "bytes_per_s": 2e9}}  # fmt: skip


def drawn(status: dict[str, Any], readings: list[dict[str, Any]]) -> str:
    console = Console(width=110, record=True, file=io.StringIO())
    console.print(view(status, readings))
    return console.export_text()


def test_load_is_shown_once_it_serves() -> None:
    text = drawn(STATUS, [reading(0, 0), reading(10, 500)])
    row = next(line for line in text.splitlines() if "decode" in line and "25.0 %" in line)
    assert row.split()[1:6] == ["decode", "3", "1", "50", "0"], row
    assert "silent" in text, "a role that does not answer is named"
    assert "2.000 GB/s" in text and "3 s ago" in text and "90.0 / 100.0 GB" in text


def test_start_shows_progress_and_no_load() -> None:
    decode = {"phase": "weights", "percent": 42, "ready": False, "elapsed_s": 30.0, "eta_s": 45.0, "restarts": 0}
    loading = STATUS | {"state": "LOADING", "reason": "decode: weights 42 %", "roles": {"decode": decode}}
    text = drawn(loading, [])
    assert "weights" in text and "42" in text and "0:45" in text and "KV link" not in text


def test_events_newest_first() -> None:
    events = [{"time": n, "from": "A", "to": f"S{n}", "reason": "r"} for n in range(20)]
    text = drawn(STATUS | {"events": events}, [])
    assert text.index("S19") < text.index("S12") and "S11" not in text
