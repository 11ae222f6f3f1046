"""Settings, hooks and adapters of the plugin, without the engine."""

from __future__ import annotations

import inspect
import json
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from dsv4_hooks.engine import ENGINE_VERSION
from dsv4_hooks.record import Record
from dsv4_hooks.table import Context
from dsv4_hooks.targets import EngineChanged
from dsv4_kernels import layout, settings, testing
from dsv4_kernels.sglang_plugin import PLUGIN, adapters, register
from dsv4_kernels.sglang_plugin.hooked import bind
from dsv4_kernels.sglang_plugin.table import HOOKS
from dsv4_kernels.testing import relative_error

HOOK = {hook.name: hook for hook in HOOKS}


def test_kernels_is_auto_or_stock() -> None:
    assert settings.load({}).enabled
    assert settings.load({"DSV4_KERNELS": ""}).enabled
    assert not settings.load({"DSV4_KERNELS": "stock"}).enabled
    with pytest.raises(settings.KernelSettingsError, match=r"DSV4_KERNELS='off', expected auto or stock"):
        settings.load({"DSV4_KERNELS": "off"})


def read(folder: Path) -> dict[str, Any]:
    (file,) = folder.glob("dsv4-kernels.*.json")
    return dict(json.loads(file.read_text()))


def test_another_engine_is_refused_whole_and_the_record_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda _: "0.0.1")
    monkeypatch.setenv("DSV4_PLUGIN_RECORD_DIR", str(tmp_path))
    with pytest.raises(EngineChanged, match=rf"sglang 0\.0\.1, expected {re.escape(ENGINE_VERSION)}"):
        register()
    written = read(tmp_path)
    assert (written["status"], written["patches"]) == ("failed", {})
    assert "DSV4_KERNELS=stock" in written["reason"]


def test_every_hook_loads_without_the_engine(tmp_path: Path) -> None:
    """Adapters are callables of the table: a misspelt one fails here and not on the GPU."""
    for hook in HOOKS:
        assert callable(hooked(hook.name, tmp_path, open_signature()))


def test_arguments_are_bound_by_name_however_they_were_passed() -> None:
    def engine(x: int, residual: int, n: int = 1, *, norm: int | None = None) -> None: ...

    signature = inspect.signature(engine)
    assert bind(signature, (1,), {"residual": 2, "norm": 3}) == {"x": 1, "residual": 2, "n": 1, "norm": 3}

    def open_ended(**kwargs: int) -> None: ...

    assert bind(inspect.signature(open_ended), (), {"q": 1, "k": 2}) == {"q": 1, "k": 2}


def sparse_mla_call(batch: int, heads: int, generator: torch.Generator) -> dict[str, Any]:
    inputs = testing.sparse_mla_inputs(batch, heads, 32, 16, generator)
    return {
        "q": inputs.q,
        "k_cache": inputs.k_cache,
        "indices": inputs.indices,
        "topk_length": inputs.topk_length,
        "attn_sink": inputs.attn_sink,
        "head_dim_v": 512,
        "softmax_scale": inputs.softmax_scale,
        "extra_k_cache": inputs.extra_k_cache,
        "extra_indices_in_kvcache": inputs.extra_indices,
        "extra_topk_length": inputs.extra_topk_length,
    }


def hooked(name: str, tmp_path: Path, signature: inspect.Signature) -> Any:
    """As the engine calls it: the hook of the table, with the mark that dsv4_hooks puts around it."""
    record = Record(PLUGIN, tmp_path)
    around = HOOK[name].load(Context(name, signature, record))

    def marked(original: Any, *args: Any, **kwargs: Any) -> Any:
        record.active(name)
        return around(original, *args, **kwargs)

    return marked


def open_signature() -> inspect.Signature:
    def flash_mla_with_kvcache_sm120(**kwargs: Any) -> None: ...

    return inspect.signature(flash_mla_with_kvcache_sm120)


def never(*_: Any, **__: Any) -> None:
    raise AssertionError("the engine's own function ran")


def test_sparse_mla_hook_runs_our_kernel(generator: torch.Generator, tmp_path: Path, tolerance: float) -> None:
    call = sparse_mla_call(2, 16, generator)
    out, lse = hooked("sparse_mla_decode", tmp_path, open_signature())(never, **call)
    assert lse is None
    expected, _ = adapters.sparse_mla(call)
    assert out.shape == call["q"].shape
    assert relative_error(out, expected) < tolerance
    assert read(tmp_path)["patches"] == {"sparse_mla_decode": "active"}
    assert read(tmp_path)["fallbacks"] == {}


@pytest.mark.parametrize(
    ("batch", "heads", "reason"),
    [(65, 16, "more than 64 rows"), (1, 8, "8 heads in 8, measured for"), (1, 128, "128 heads")],
)
def test_a_shape_outside_the_table_uses_the_engines_path_visibly(
    generator: torch.Generator, tmp_path: Path, batch: int, heads: int, reason: str
) -> None:
    call = sparse_mla_call(batch, heads, generator)
    stock = hooked("sparse_mla_decode", tmp_path, open_signature())(lambda **_: "stock", **call)
    assert stock == "stock"
    (written,) = read(tmp_path)["fallbacks"]["sparse_mla_decode"]
    assert reason in written
    assert read(tmp_path)["patches"] == {"sparse_mla_decode": "active"}


def padded(call: dict[str, Any], heads: int) -> dict[str, Any]:
    """q in as many heads, of which only the first are real: models/deepseek_v4_dspark.py does so for FlashMLA."""
    q = call["q"].new_full((*call["q"].shape[:2], heads, call["q"].shape[3]), float("nan"))
    q[:, :, : call["q"].shape[2]] = call["q"]
    return call | {"q": q}


def test_a_draft_s_padded_heads_are_not_computed(generator: torch.Generator, tmp_path: Path, tolerance: float) -> None:
    """DSpark with 16 heads a rank ended its server at the capture of the graphs: 16 sinks, and 64 heads of q."""
    call = sparse_mla_call(2, 16, generator)
    expected, _ = adapters.sparse_mla(call)
    out, _ = hooked("sparse_mla_decode", tmp_path, open_signature())(never, **padded(call, 64))
    assert out.shape == (2, 1, 64, 512)
    assert relative_error(out[:, :, :16], expected) < tolerance
    assert read(tmp_path)["fallbacks"] == {}


def test_as_many_sinks_as_were_not_measured_are_left_to_the_engine(generator: torch.Generator, tmp_path: Path) -> None:
    call = padded(sparse_mla_call(1, 8, generator), 64)
    assert hooked("sparse_mla_decode", tmp_path, open_signature())(lambda **_: "stock", **call) == "stock"
    (written,) = read(tmp_path)["fallbacks"]["sparse_mla_decode"]
    assert "8 heads in 64" in written


@pytest.mark.parametrize(
    ("shape", "stride", "reason"),
    [
        ((4, 256, 1, 656), 256 * 656, "entries of 656 bytes"),
        ((4, 128, 1, 584), 128 * 584, "pages of 128 tokens"),
        ((1 << 20, 64, 1, 584), 37_440, "a pool of 39258685440 bytes"),
    ],
)
def test_another_cache_is_left_to_the_engine(shape: tuple[int, ...], stride: int, reason: str) -> None:
    strides = (stride, shape[3], shape[3], 1)
    cache = torch.empty_strided(shape, strides, dtype=torch.uint8, device="meta")
    found = adapters.refuse_cache(cache)
    assert found is not None
    assert reason in found


def mhc_call(tokens: int, generator: torch.Generator) -> dict[str, Any]:
    inputs = testing.mhc_inputs(tokens, generator)
    return {
        "x": inputs.x,
        "residual": inputs.residual,
        "post_layer_mix": inputs.post,
        "comb_res_mix": inputs.comb,
        "fn": inputs.fn,
        "hc_scale": inputs.scale,
        "hc_base": inputs.base,
        "rms_eps": 1e-6,
        "hc_pre_eps": 1e-6,
        "hc_sinkhorn_eps": 1e-6,
        "hc_post_mult_value": 2.0,
        "sinkhorn_repeat": 20,
        "n_splits": 1,
        "tile_n": 1,
        "norm_weight": inputs.norm_weight,
        "norm_eps": 1e-6,
    }


@pytest.mark.parametrize(("tokens", "said"), [(23, "fewer"), (24, None), (64, None), (65, "more")])
def test_mhc_takes_the_measured_token_counts(generator: torch.Generator, tokens: int, said: str | None) -> None:
    call = mhc_call(1, generator)
    call["residual"] = torch.empty((tokens, layout.HC_MULT, layout.HIDDEN), dtype=torch.bfloat16, device="meta")
    reason = adapters.refuse_mhc(call)
    assert (reason is None) if said is None else (reason is not None and said in reason)


@pytest.mark.slow
def test_mhc_adapter_keeps_the_engines_shapes(generator: torch.Generator) -> None:
    call = mhc_call(2, generator)
    residual, post, comb, layer_input = adapters.mhc(call, symmetric=nullcontext)
    assert residual.shape == (2, 4, 4096)
    assert post.shape == (2, 4, 1)
    assert comb.shape == (2, 4, 4)
    assert layer_input.shape == (2, 4096)
    assert layer_input.isfinite().all()
