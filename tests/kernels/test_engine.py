"""The plugin through SGLang's real plugin loader, in the engine's environment; kernels in Triton's interpreter.

Run with an interpreter that has pytest; the engine runs in processes of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
VENVS = Path(os.environ.get("TEST_VENVS", ROOT / ".venvs")).resolve()
ENGINE = VENVS / "engine" / "bin" / "python"
TRITON = next((VENVS / "kernels" / "lib").glob("python3*/site-packages/triton"), None)

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(TRITON is None, reason="no Triton for the engine's process: run `make test-kernels`"),
    pytest.mark.timeout(600),
]

LOAD = """
    import json, sys
    from sglang.srt.plugins import load_plugins
    load_plugins()
    from sglang.kernels.ops.attention import flash_mla_sm120 as attention
    from sglang.kernels.ops.layernorm import mhc
"""
CALL = """
    import torch
    from dsv4_kernels import testing
    from dsv4_kernels.sparse_mla_decode.reference import Scope, sparse_mla_reference
    i = testing.sparse_mla_inputs(2, 16, 32, 16, torch.Generator().manual_seed(0))
    out, lse = attention.flash_mla_with_kvcache_sm120(
        q=i.q, k_cache=i.k_cache, indices=i.indices, topk_length=i.topk_length, attn_sink=i.attn_sink,
        head_dim_v=512, softmax_scale=i.softmax_scale, extra_k_cache=i.extra_k_cache,
        extra_indices_in_kvcache=i.extra_indices, extra_topk_length=i.extra_topk_length)
    main = Scope(i.k_cache, i.indices, i.topk_length)
    extra = Scope(i.extra_k_cache, i.extra_indices, i.extra_topk_length)
    print(testing.relative_error(out, sparse_mla_reference(i.q, main, extra, i.attn_sink, i.softmax_scale)))
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """What installing kernels/ leaves behind, and the Triton that a CPU build of the engine lacks."""
    site = tmp_path / "site"
    info = site / "dsv4_kernels-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: dsv4-kernels\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text("[sglang.srt.plugins]\ndsv4-kernels = dsv4_kernels.sglang_plugin:register\n")
    (site / "dsv4_kernels").symlink_to(ROOT / "kernels" / "dsv4_kernels")
    (site / "dsv4_hooks").symlink_to(ROOT / "hooks" / "dsv4_hooks")
    assert TRITON is not None
    (site / "triton").symlink_to(TRITON)
    return site


def run(site: Path, records: Path, program: str, **settings: str) -> tuple[str, dict[str, Any]]:
    environ = os.environ | {
        "PYTHONPATH": str(site),
        "CUDA_VISIBLE_DEVICES": "",
        "SGLANG_PLUGINS": "dsv4-kernels",
        "TRITON_INTERPRET": "1",
        "DSV4_PLUGIN_RECORD_DIR": str(records),
        **settings,
    }
    command = [str(ENGINE), "-W", "ignore", "-c", textwrap.dedent(program)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    (record,) = records.glob("dsv4-kernels.*.json")
    return done.stdout.strip(), json.loads(record.read_text())


def test_a_call_of_the_engine_reaches_our_kernel(installed: Path, tmp_path: Path) -> None:
    printed, record = run(installed, tmp_path / "records", LOAD + CALL)
    assert float(printed.splitlines()[-1]) < 1e-2
    assert record["status"] == "ok", record
    assert record["patches"] == {"sparse_mla_decode": "active", "mhc_post_pre": "installed"}
    assert record["fallbacks"] == {}


def test_stock_leaves_the_engine_alone(installed: Path, tmp_path: Path) -> None:
    names = "print(attention.flash_mla_with_kvcache_sm120.__wrapped__ if hasattr("
    names += "attention.flash_mla_with_kvcache_sm120, '__wrapped__') else 'stock')"
    printed, record = run(installed, tmp_path / "records", LOAD + "    " + names, DSV4_KERNELS="stock")
    assert printed.splitlines()[-1] == "stock"
    assert record["patches"] == {}
    assert (record["status"], record["reason"]) == ("ok", "DSV4_KERNELS=stock")


def test_a_changed_engine_is_refused_whole(installed: Path, tmp_path: Path) -> None:
    """SGLang only logs the refusal and serves on; the record is what says so."""
    change = """
    from dsv4_kernels.sglang_plugin import table
    import dataclasses
    first, *rest = table.HOOKS
    table.HOOKS = (first, *[dataclasses.replace(hook, parameters=("other",)) for hook in rest])
    """
    _, record = run(installed, tmp_path / "records", change + LOAD)
    assert record["status"] == "failed"
    assert "expected ('other',)" in record["reason"]
    assert record["patches"] == {}
