"""The exposition: joined, labelled and ours; every line must be readable by a strict reader."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from dsv4_pd.run.ops import collect, own
from dsv4_pd.run.ops.exposition import gauge, join, parse, render, samples, with_label
from dsv4_pd.run.ops.live import live, rates
from dsv4_pd.run.ops.telemetry import ready_since

ENGINE = """# HELP sglang:num_running_reqs The number of running requests.
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{model_name="m",tp_rank="0"} 3.0
# HELP sglang:kv_transfer_total_mb Histogram of KV cache transfer size in MB.
# TYPE sglang:kv_transfer_total_mb histogram
sglang:kv_transfer_total_mb_bucket{le="1.0",tp_rank="0"} 4.0
sglang:kv_transfer_total_mb_count{tp_rank="0"} 4.0
sglang:kv_transfer_total_mb_sum{tp_rank="0"} 0.5
# TYPE sglang:kv_transfer_speed_gb_s histogram
sglang:kv_transfer_speed_gb_s_count{tp_rank="0"} 4.0
sglang:kv_transfer_speed_gb_s_sum{tp_rank="0"} 8.0
# TYPE sglang:realtime_tokens_total counter
sglang:realtime_tokens_total{mode="decode"} 10.0
sglang:realtime_tokens_total{mode="prefill_compute"} 100.0
"""
ROUTER = """# TYPE smg_worker_health gauge
smg_worker_health{worker="http://127.0.0.1:30000"} 1
"""


def document(**changes: Any) -> dict[str, Any]:
    roles = {
        "prefill": {"ready": True, "restarts": 0, "phase_times": {"weights": 1.0, "ready": 9.0}, "elapsed_s": 20.0},
        "decode": {"ready": False, "restarts": 2, "kv_capacity_tokens": 16384, "elapsed_s": None,
                   "gpu_memory": [{"uuid": "GPU-1", "used_bytes": 90_512_345_678, "total_bytes": 102_641_958_912}]},
    }  # fmt: skip
    base = {"state": "READY", "serving": True, "since": 90.0, "heartbeat": 100.0, "version": "1", "mode": "pd",
            "profile": "demo-cpu", "model": 'a "quoted" name', "roles": roles,
            "canary": {"proved_s_ago": 4.0, "seconds": 0.2, "failures": 0},
            "restarts": {"spent": 1, "limit": 3}}  # fmt: skip
    return base | changes


def value(text: str, name: str, **labels: str) -> float:
    found = [s.value for s in samples(text) if s.name == name and labels.items() <= s.labels.items()]
    assert len(found) == 1, (name, labels, found)
    return found[0]


TEXTS: dict[str, str | None] = {"prefill": ENGINE, "decode": ENGINE.replace("4.0\n", "0.0\n"), "router": ROUTER}


def exposition(texts: dict[str, str | None] | None = None, **changes: Any) -> str:
    return collect.exposition(document(**changes), texts or TEXTS, {"cubin": 0})


def test_each_family_stands_in_one_piece() -> None:
    text = exposition()
    types = re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE)
    assert len(types) == len(set(types))
    current = ""
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            current = line.split()[2]
        elif not line.startswith("#"):
            assert line.startswith(current), f"{line} stands below {current}"


def test_engine_and_router_keep_their_names_and_gain_a_role() -> None:
    text = exposition()
    assert value(text, "sglang:num_running_reqs", role="prefill", tp_rank="0") == 3.0
    assert value(text, "sglang:num_running_reqs", role="decode") == 3.0
    assert value(text, "smg_worker_health", role="router") == 1.0


def test_own_metrics_use_base_units() -> None:
    text = exposition()
    assert value(text, "dsv4_state", state="READY") == 1
    assert value(text, "dsv4_state", state="DEGRADED") == 0
    assert value(text, "dsv4_state_duration_seconds") == 10
    assert value(text, "dsv4_role_restarts_total", role="decode") == 2
    assert value(text, "dsv4_role_load_seconds", role="prefill", phase="weights") == 8.0
    assert value(text, "dsv4_gpu_memory_used_bytes", role="decode", gpu="GPU-1") == 90_512_345_678
    assert value(text, "dsv4_kv_link_bytes_total") == 2**20  # both ends' histograms, 0.5 MiB each
    assert value(text, "dsv4_kv_link_bytes_per_second") == pytest.approx(4 * 2**30)
    assert value(text, "dsv4_build_info", version="1") == 1
    assert samples(text)[0].labels["model"] == 'a \\"quoted\\" name'


def test_silent_program_is_visible_and_costs_only_its_own_lines() -> None:
    text = exposition({**TEXTS, "decode": None})
    assert value(text, "dsv4_scrape_up", role="decode") == 0
    assert value(text, "dsv4_scrape_up", role="prefill") == 1
    assert 'role="prefill"' in text


def test_existing_role_label_is_not_doubled() -> None:
    assert with_label('x{role="mine"} 1', "role", "other") == 'x{role="mine"} 1'
    assert with_label('x{a="role=1"} 1', "role", "other") == 'x{role="other",a="role=1"} 1'


def test_render_then_parse_is_the_same() -> None:
    joined = join({"a": ENGINE, "b": ENGINE})
    again = parse(render(joined.values()))
    assert {n: f.lines for n, f in again.items()} == {n: f.lines for n, f in joined.items()}


def test_label_values_are_escaped() -> None:
    assert gauge("x", "", [({"a": 'q"\n\\'}, 1)]).lines == ['x{a="q\\"\\n\\\\"} 1']


def test_compiles_count_only_what_is_younger(tmp_path: Path) -> None:
    old, new = tmp_path / "a/old.cubin", tmp_path / "b/c/new.cubin"
    for path, stamp in ((old, 100), (new, 300), (tmp_path / "b/x.so", 300), (tmp_path / "b/x.json", 300)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (stamp, stamp))
    assert collect.compiled_since(tmp_path, 200) == {"cubin": 1, "shared_object": 1}
    assert collect.compiled_since(tmp_path / "none", 0) == {"cubin": 0, "shared_object": 0}


def test_ready_since_needs_every_server() -> None:
    ready = {"elapsed_s": 30.0, "phase_times": {"ready": 20.0}}
    assert ready_since({"heartbeat": 100.0, "roles": {"prefill": ready, "decode": ready, "router": {}}}) == 90.0
    assert ready_since({"heartbeat": 100.0, "roles": {"prefill": ready, "decode": {"elapsed_s": 1.0}}}) is None


def test_what_the_warm_up_compiles_is_no_compile_while_serving() -> None:
    """Files that it leaves are older than readiness; while it runs nothing is counted."""
    ready = {"elapsed_s": 30.0, "phase_times": {"ready": 20.0}}
    warm = {"heartbeat": 100.0, "roles": {"prefill": ready | {"warm_after_s": 25.0}, "decode": ready}}
    assert ready_since(warm) == 95.0
    warm["roles"]["decode"] = ready | {"warm_after_s": None}  # type: ignore[index]
    assert ready_since(warm) is None


def test_live_reading_and_rates() -> None:
    first = live({"prefill": ENGINE, "decode": None, "router": ROUTER}, 10.0)
    assert first["roles"]["prefill"]["running"] == 3
    assert first["roles"]["decode"] is None
    assert "router" not in first["roles"]
    second = live({"prefill": ENGINE.replace('"decode"} 10.0', '"decode"} 30.0'), "decode": None}, 12.0)
    assert rates(first, second)["prefill"]["output_tokens"] == 10.0
    assert rates(second, first) == {}, "time ran backwards"
    assert rates(live({"prefill": ENGINE}, 1), live({"prefill": ""}, 2))["prefill"]["output_tokens"] == 0.0


def test_phases_of_a_start() -> None:
    assert own.phases({}) == {}
    assert own.phases({"phase_times": {"ready": 5.0, "weights": 1.0}}) == {"start": 1.0, "weights": 4.0}


def test_the_page_lists_every_metric_of_ours() -> None:
    text = Path(__file__).resolve().parents[2].joinpath("docs/metrics.md").read_text()
    names = {sample.name for sample in samples(exposition()) if sample.name.startswith("dsv4_")}
    assert len(names) > 15 and [name for name in sorted(names) if f"`{name}" not in text] == []


def test_several_members_of_a_role_have_their_names() -> None:
    one = {"role": "single", "ready": True, "restarts": 1, "kv_capacity_tokens": 4, "phase_times": {"ready": 2.0},
           "gpu_memory": [{"uuid": "GPU-1", "used_bytes": 1, "total_bytes": 2}]}  # fmt: skip
    paths = [{"members": ["single-1"], "proved_s_ago": 2.0, "failures": 0, "failure": None},
             {"members": ["single-2"], "proved_s_ago": None, "failures": 2, "failure": "x"}]  # fmt: skip
    text = exposition(
        {"single-1": ENGINE, "single-2": ENGINE, "router": ROUTER},
        roles={"single-1": one, "single-2": one | {"ready": False}, "router": {"role": "router", "ready": True}},
        paths=paths,
    )
    ours = {"role": "single", "member": "single-2"}
    assert value(text, "dsv4_role_ready", **ours) == 0 and value(text, "dsv4_scrape_up", **ours) == 1
    assert value(text, "sglang:realtime_tokens_total", mode="decode", **ours) == 10.0
    assert value(text, "dsv4_gpu_memory_used_bytes", gpu="GPU-1", **ours) == 1
    assert value(text, "dsv4_role_load_seconds", phase="start", **ours) == 2.0
    assert value(text, "dsv4_path_canary_failures", path="single-2") == 2
    assert [s.labels for s in samples(text) if s.name == "dsv4_path_canary_age_seconds"] == [{"path": "single-1"}]


def test_the_only_one_of_a_role_has_its_role_as_its_name() -> None:
    assert value(exposition(), "dsv4_role_restarts_total", role="decode", member="decode") == 2
    assert "dsv4_path" not in exposition()


def test_how_cards_are_and_what_they_reported() -> None:
    card = {"uuid": "GPU-1", "used_bytes": 1, "total_bytes": 2, "power_w": 312.5, "power_limit_w": 600.0,
            "temperature_c": 61, "utilization": 0.87, "pcie_tx_bytes_per_s": 1.5e6, "pcie_rx_bytes_per_s": 2e9,
            "ecc_uncorrected": 3, "xids": {"31": 2}}  # fmt: skip
    roles = {"decode": {"ready": True, "gpu_memory": [card, {"uuid": "GPU-2", "used_bytes": 1, "total_bytes": 2}]}}
    text = exposition(roles=roles)
    assert value(text, "dsv4_gpu_power_watts", gpu="GPU-1", role="decode") == 312.5
    assert value(text, "dsv4_gpu_temperature_celsius", gpu="GPU-1") == 61
    assert value(text, "dsv4_gpu_utilization_ratio", gpu="GPU-1") == 0.87
    assert value(text, "dsv4_gpu_pcie_bytes_per_second", direction="rx") == 2e9
    assert value(text, "dsv4_gpu_xid_errors_total", xid="31") == 2
    assert value(text, "dsv4_gpu_ecc_uncorrected_errors", gpu="GPU-1") == 3
    gpu2 = [sample.name for sample in samples(text) if sample.labels.get("gpu") == "GPU-2"]
    assert gpu2 == ["dsv4_gpu_memory_used_bytes", "dsv4_gpu_memory_total_bytes"], "what it does not give has no series"
