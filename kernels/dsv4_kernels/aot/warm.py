"""python -m dsv4_kernels.aot.warm FOLDER [CAPABILITY]: fill a Triton cache with what the plugin launches. No GPU.

The calls are the adapters' own, on tensors without memory, so that the cache's keys are those of a running server:
a server of the same environment on such a card compiles nothing. Prints how many kernels it had to compile.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction

from dsv4_kernels import cards, layout
from dsv4_kernels.cards import Card
from dsv4_kernels.layout import PageLayout
from dsv4_kernels.sglang_plugin import adapters

META = torch.device("meta")
# (page of the compressed cache, widths of its index table); c128's table grows with the context: one key in 128 tokens
SCOPES: tuple[tuple[int, tuple[int, ...]], ...] = (
    (layout.C4_PAGE, (0, layout.INDEX_TOPK)),
    (layout.C128_PAGE, (64, 128, 256, 512, 1024, 2048, 4096, 8192)),
)


class Absent:
    """Stands where Triton's driver of a real card would: it only names the card."""

    def __init__(self, capability: int) -> None:
        self._target = GPUTarget("cuda", capability, 32)

    def get_current_target(self) -> GPUTarget:
        return self._target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        del device
        return 0


def compile_only(capability: int) -> list[str]:
    """From here on, launches compile for that card and run nothing; the list fills with the kernels asked for."""
    asked: list[str] = []
    launch = JITFunction.run

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        del warmup
        asked.append(self.__name__)
        return launch(self, *args, grid=grid, warmup=True, **options)

    driver.set_active(Absent(capability))
    JITFunction.run = run
    return asked


def empty(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device=META)


def cache(page_size: int) -> torch.Tensor:
    """A pool of two pages, with the engine's stride."""
    stride = PageLayout.of(page_size).page_bytes
    entry = layout.ENTRY_BYTES
    return empty(2, stride, dtype=torch.uint8).as_strided((2, page_size, 1, entry), (stride, entry, entry, 1))


def sparse_mla_call(batch: int, heads: int, page_size: int, width: int) -> dict[str, Any]:
    """What the engine passes for one layer of a decode batch."""
    call: dict[str, Any] = {
        "q": empty(batch, 1, heads, layout.HEAD_DIM, dtype=torch.bfloat16),
        "k_cache": cache(layout.SWA_PAGE),
        "indices": empty(batch, 1, layout.SWA_WINDOW, dtype=torch.int32),
        "topk_length": empty(batch, dtype=torch.int32),
        "attn_sink": empty(heads, dtype=torch.float32),
        "head_dim_v": layout.HEAD_DIM,
    }
    if width:
        call |= {
            "extra_k_cache": cache(page_size),
            "extra_indices_in_kvcache": empty(batch, 1, width, dtype=torch.int32),
            "extra_topk_length": empty(batch, dtype=torch.int32),
        }
    return call


def mhc_call(tokens: int) -> dict[str, Any]:
    """What the engine passes at one sublayer boundary."""
    hc, hidden = layout.HC_MULT, layout.HIDDEN
    return {
        "x": empty(tokens, hidden, dtype=torch.bfloat16),
        "residual": empty(tokens, hc, hidden, dtype=torch.bfloat16),
        "post_layer_mix": empty(tokens, hc, 1, dtype=torch.float32),
        "comb_res_mix": empty(tokens, hc, hc, dtype=torch.float32),
        "fn": empty(layout.HC_MIXES, hc * hidden, dtype=torch.float32),
        "hc_scale": empty(3, dtype=torch.float32),
        "hc_base": empty(layout.HC_MIXES, dtype=torch.float32),
        "norm_weight": empty(hidden, dtype=torch.bfloat16),
        "rms_eps": 1e-6,
        "hc_pre_eps": 1e-6,
        "hc_sinkhorn_eps": 1e-6,
        "hc_post_mult_value": 2.0,
        "sinkhorn_repeat": layout.SINKHORN_ITERS,
        "norm_eps": 1e-6,
    }


def launch_all(heads: int, card: Card) -> None:
    """Every shape that passes the adapters' own refusals, for one head count on one card."""
    for page_size, widths in SCOPES:
        for width in widths:
            for batch in range(1, adapters.DECODE_ROWS + 1):
                call = sparse_mla_call(batch, heads, page_size, width)
                assert adapters.refuse_sparse_mla(call) is None
                adapters.sparse_mla(call, card)
    for tokens in adapters.MHC_TOKENS:
        call = mhc_call(tokens)
        assert adapters.refuse_mhc(call) is None
        adapters.mhc(call, nullcontext)


def binaries(folder: Path) -> set[str]:
    return {path.parent.name for path in folder.glob("*/*.cubin")}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m dsv4_kernels.aot.warm")
    parser.add_argument("folder", type=Path)
    parser.add_argument("capability", type=int, nargs="?", default=120)
    parser.add_argument("--heads", type=int, nargs="+", default=[16], help="of one rank: 16 at TP4, 32 at TP2")
    parser.add_argument("--sms", type=int, help="SMs of the card; the known one of that capability where left out")
    options = parser.parse_args()
    card = cards.of_capability(options.capability)
    card = replace(card, sms=options.sms) if options.sms else card
    options.folder.mkdir(parents=True, exist_ok=True)
    os.environ["TRITON_CACHE_DIR"] = str(options.folder)
    had = binaries(options.folder)
    asked = compile_only(options.capability)
    for heads in options.heads:
        launch_all(heads, card)
    have = binaries(options.folder)
    print(
        f"{len(asked)} launches for {card.sms} SMs of compute capability {card.capability / 10:.1f} with Triton "
        f"{triton.__version__}: "
        f"{len(have - had)} kernels compiled, {len(have)} in {options.folder}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
