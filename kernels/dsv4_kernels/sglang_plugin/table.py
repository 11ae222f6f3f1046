"""Target -> replacement: everything that this plugin changes in SGLang."""

from __future__ import annotations

from dsv4_hooks.table import Around, Context, Hook


def _sparse_mla(context: Context) -> Around:
    from dsv4_kernels.sglang_plugin import adapters, hooked

    return hooked.around(context, adapters.refuse_sparse_mla, adapters.sparse_mla)


def _mhc(context: Context) -> Around:
    from dsv4_kernels.sglang_plugin import adapters, hooked

    return hooked.around(context, adapters.refuse_mhc, lambda call: adapters.mhc(call, hooked.symmetric_memory))


# required: the engine reaches the target in every DeepSeek-V4 forward on sm_120
HOOKS = (
    Hook(
        name="sparse_mla_decode",
        target="sglang.kernels.ops.attention.flash_mla_sm120.flash_mla_with_kvcache_sm120",
        parameters=("kwargs",),
        load=_sparse_mla,
        required=True,
    ),
    # indexer_logits and indexer_topk are not here: docs/adr/0101 says why
    Hook(
        name="mhc_post_pre",
        target="sglang.kernels.ops.layernorm.mhc.mhc_fused_post_pre",
        parameters=(
            "x",
            "residual",
            "post_layer_mix",
            "comb_res_mix",
            "fn",
            "hc_scale",
            "hc_base",
            "rms_eps",
            "hc_pre_eps",
            "hc_sinkhorn_eps",
            "hc_post_mult_value",
            "sinkhorn_repeat",
            "n_splits",
            "tile_n",
            "norm_weight",
            "norm_eps",
        ),
        load=_mhc,
    ),
)
