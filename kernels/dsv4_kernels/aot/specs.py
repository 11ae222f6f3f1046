"""The kernels as the plugin launches them, with every value that Triton compiles in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dsv4_kernels import layout
from dsv4_kernels.cards import Card
from dsv4_kernels.indexer_logits.kernel import indexer_logits_kernel
from dsv4_kernels.indexer_logits.tiling import choose_tiling as indexer_tiling
from dsv4_kernels.indexer_topk.kernel import topk_kernel
from dsv4_kernels.indexer_topk.tiling import choose_tiling as topk_tiling
from dsv4_kernels.mhc_post_pre.kernel import mhc_finish_kernel, mhc_mix_kernel
from dsv4_kernels.mhc_post_pre.tiling import TILING as MHC_TILING
from dsv4_kernels.sparse_mla_decode.kernel import sparse_mla_combine_kernel, sparse_mla_split_kernel
from dsv4_kernels.sparse_mla_decode.op import COMBINE_DIMS, COMBINE_SPLITS
from dsv4_kernels.sparse_mla_decode.tiling import choose_tiling as mla_tiling

# argument → Triton type; pointers are 16-byte aligned, as torch allocates them
POINTERS = {
    "p_q": "*bf16",
    "p_out": "*bf16",
    "p_main": "*u8",
    "p_extra": "*u8",
    "p_main_index": "*i32",
    "p_extra_index": "*i32",
    "p_main_length": "*i32",
    "p_extra_length": "*i32",
    "p_sink": "*fp32",
    "p_part": "*fp32",
    "p_lse": "*fp32",
    "p_x": "*bf16",
    "p_residual": "*bf16",
    "p_new": "*bf16",
    "p_norm": "*bf16",
    "p_key": "*fp8e4nv",
    "p_length": "*i32",
    "p_table": "*i32",
}
FLOATS = frozenset({"scale_log2", "rms_eps", "pre_eps", "sinkhorn_eps", "post_mult", "norm_eps"})


@dataclass(frozen=True, slots=True)
class Spec:
    name: str
    kernel: Any
    constants: dict[str, Any]
    num_warps: int
    num_stages: int = 1
    launch_pdl: bool = False
    types: dict[str, str] = field(default_factory=dict)  # where an argument's type is not the usual one
    aligned: frozenset[str] = frozenset()  # integers that are multiples of 16

    def type_of(self, argument: str) -> str:
        if argument in self.constants:
            return "constexpr"
        if argument in self.types:
            return self.types[argument]
        if argument.startswith("p_"):
            return POINTERS.get(argument, "*fp32")
        return "fp32" if argument in FLOATS else "i32"


SCOPES = {"c4": (layout.C4_PAGE, True), "c128": (layout.C128_PAGE, True), "swa": (layout.C4_PAGE, False)}


def sparse_mla_specs(heads: int, scope: str, batch: int, card: Card) -> tuple[Spec, ...]:
    page, has_extra = SCOPES[scope]
    tiling = mla_tiling(batch, heads, layout.SWA_WINDOW, layout.INDEX_TOPK if has_extra else 0, card.sms)
    single = tiling.splits == 1
    shared = {"H": heads, "BN": tiling.block_n, "HAS_SINK": True, "HAS_MAIN_LENGTH": True}
    shared |= {"HAS_EXTRA": has_extra, "HAS_EXTRA_LENGTH": has_extra}
    split = Spec(
        f"sparse_mla_split H={heads} {scope} keys={tiling.block_n} splits={tiling.splits}",
        sparse_mla_split_kernel,
        shared | {"BH": tiling.block_h, "SINGLE": single, "MAIN_PAGE": layout.SWA_PAGE, "EXTRA_PAGE": page},
        tiling.num_warps,
        types={"p_part": "*bf16", "p_lse": "*bf16"} if single else {},
        aligned=frozenset({"stride_qb", "stride_qh"}),
    )
    combine = Spec(
        f"sparse_mla_combine H={heads} {scope} keys={tiling.block_n} splits={tiling.splits}",
        sparse_mla_combine_kernel,
        shared
        | {
            "SPLITS_POW2": tiling.splits_pow2,
            "BD": COMBINE_DIMS,
            "BS": min(COMBINE_SPLITS, tiling.splits_pow2),
        },
        4,
        launch_pdl=True,
    )
    return (split,) if single else (split, combine)


def mhc_specs() -> tuple[Spec, ...]:
    tiling = MHC_TILING
    size = {"HIDDEN": layout.HIDDEN}
    mix = {"SLICE": tiling.slice_size, "BT": tiling.block_t, "BG": tiling.mix_warps, "BK": tiling.block_k}
    finish = {"SPLITS": tiling.splits, "ITERATIONS": layout.SINKHORN_ITERS, "HAS_NORM": True}
    return (
        Spec("mhc_mix", mhc_mix_kernel, size | mix, tiling.mix_warps),
        Spec("mhc_finish", mhc_finish_kernel, size | finish, tiling.finish_warps, launch_pdl=True),
    )


def indexer_specs(batch: int, card: Card) -> tuple[Spec, ...]:
    tiling = indexer_tiling(batch, 4096, card.sms)
    constants = {"SKIP": layout.INDEX_TOPK, "PAGES": tiling.pages, "BR": tiling.row_block, "STAGES": tiling.num_stages}
    constants |= {"ONE_BLOCK": batch <= tiling.row_block, "HAS_ZERO": True}
    types = {"p_q": "*fp8e4nv", "p_out": "*fp32", "p_zero": "*i32"}
    return (Spec(f"indexer_logits B={batch}", indexer_logits_kernel, constants, tiling.num_warps, types=types),)


def topk_specs(batch: int, card: Card) -> tuple[Spec, ...]:
    tiling = topk_tiling(batch, 4096, card.sms)
    constants = {"TOPK": layout.INDEX_TOPK, "SLOT": tiling.slot, "SMALL": tiling.small, "SIZE": tiling.size}
    constants |= {"HAS_RAW": False}
    types = dict.fromkeys(("p_out", "p_raw", "p_cand_key", "p_cand_index", "p_arrived"), "*i32")
    aligned = frozenset({"stride_table"})
    return (
        Spec("indexer_topk", topk_kernel, constants, tiling.num_warps, launch_pdl=True, types=types, aligned=aligned),
    )


def all_specs(card: Card) -> tuple[Spec, ...]:
    """Decode at TP4 (16 heads), TP2 (32) and TP1 (64): every scope, split and whole."""
    specs = [spec for scope in SCOPES for spec in sparse_mla_specs(16, scope, 64, card)]
    specs += sparse_mla_specs(16, "c4", 8, card)  # 64 keys a step
    specs += sparse_mla_specs(16, "swa", 8, card)  # few rows: split
    specs += [*sparse_mla_specs(32, "c4", 32, card), *sparse_mla_specs(32, "c4", 64, card)]
    specs += sparse_mla_specs(64, "c4", 64, card)  # one split: the kernel that also applies the sink
    specs += sparse_mla_specs(64, "c4", 40, card)  # 160 blocks: on 188 SMs one split of 64 keys a step
    specs += [*mhc_specs(), *indexer_specs(64, card), *topk_specs(64, card)]
    return tuple(specs)
