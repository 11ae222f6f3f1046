"""The terminal view of a running appliance, drawn from documents."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

from dsv4_pd.cli.status_view import view
from dsv4_pd.run.console.live import LiveConsole
from dsv4_pd.run.download.progress import Snapshot
from rich.console import Console
from support.plans import make, no_gpu

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


DOWNLOADING: dict[str, Any] = {
    "state": "DOWNLOADING", "serving": False, "since": 1000.0, "heartbeat": 1065.0, "roles": {}, "events": [],
    "reason": Snapshot("fetching", 160 * 10**9, 40 * 10**9, 0, 4e8).words(),
    "download": Snapshot("fetching", 160 * 10**9, 40 * 10**9, 0, 4e8).document(),
}  # fmt: skip


def test_a_download_is_shown_as_one_row() -> None:
    """`status` and the live console draw the same table."""
    text = drawn(DOWNLOADING, [])
    assert "DOWNLOADING fetching the model: 25.0 %, 40.0 of 160.0 GB, 400 MB/s" in " ".join(text.split())
    row = next(line for line in text.splitlines() if line.strip(" │").startswith("model"))
    assert row.split()[0] == "model" and row.split()[1] == "fetching", row
    assert row.split()[-3:] == ["25", "1:05", "5:00"], row


def test_a_download_of_unknown_size_claims_no_percentage() -> None:
    asking = DOWNLOADING | {"download": Snapshot("asking", None, 0, 0, 0.0).document(), "reason": "asking the Hub"}
    row = next(line for line in drawn(asking, []).splitlines() if line.strip().startswith("model"))
    assert row.split()[1] == "asking" and row.split()[-1] == "1:05" and "%" not in row and " 0 " not in row, row


def test_the_live_console_draws_the_download(tmp_path: Path) -> None:
    plan = make({"DSV4_PROFILE": "demo-cpu"}, no_gpu(), run=tmp_path)
    out = Screen()
    console = LiveConsole(plan, out)
    plan.paths.health.parent.mkdir(parents=True, exist_ok=True)
    plan.paths.health.write_text(json.dumps(DOWNLOADING), encoding="utf-8")
    with console:
        console.tick()
    shown = out.getvalue()
    assert "DOWNLOADING" in shown and "model" in shown and "fetching" in shown and "1:05" in shown, shown


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_events_newest_first() -> None:
    events = [{"time": n, "from": "A", "to": f"S{n}", "reason": "r"} for n in range(20)]
    text = drawn(STATUS | {"events": events}, [])
    assert text.index("S19") < text.index("S12") and "S11" not in text
