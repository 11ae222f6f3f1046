"""Size the KV pools of DeepSeek-V4-Flash with the engine's own class; prints JSON. Run by the engine's interpreter.

Standard input: {"config": path, "budget": bytes, "loads": [{role, max_running, chunk, speculative}]}.
Only what the class asks of the running server is stood in for; every formula is the engine's.
"""

import json
import sys
from types import SimpleNamespace as Namespace

from resolve_server_args import GpuOnly


def server(load):
    """The running server's settings, as the class reads them."""
    draft = 4 if load["speculative"] else None
    decode = load["role"] == "decode"
    extra = 2 * load["max_running"] if decode and load["max_running"] <= 32 else 0
    return {
        "get_exec": Namespace(
            kernel=Namespace(dsv4_attn_backend="flashmla", enable_deepseek_v4_fp4_indexer=False),
            features=Namespace(enable_encoder_swa_bounded_replay=False),
        ),
        "get_spec": Namespace(
            speculative_algorithm="EAGLE" if draft else None, speculative_num_draft_tokens=draft,
            speculative_num_steps=3 if draft else None, speculative_eagle_topk=1 if draft else None,
        ),
        "get_schedule": Namespace(
            max_running_requests=load["max_running"], chunked_prefill_size=load["chunk"], swa_prefix_tails=None,
            swa_full_tokens_ratio=0.1, _swa_full_tokens_ratio_explicitly_set=False, disable_overlap_schedule=False,
        ),
        "get_disagg": Namespace(
            disaggregation_mode="null" if load["role"] == "single" else load["role"],
            disaggregation_decode_extra_slots=extra,
        ),
        "get_memory": Namespace(enable_hisparse=False, disable_radix_cache=decode),
    }  # fmt: skip


def size(load, config, budget):
    import sglang.srt.mem_cache.allocation_sizing as sizing
    import sglang.srt.mem_cache.deepseek_v4_memory_pool as pool
    import sglang.srt.model_executor.pool_configurator as configurator

    for name, value in server(load).items():
        for module in (configurator, pool, sizing):
            if hasattr(module, name):
                setattr(module, name, lambda value=value: value)
    drafts = 4 if load["speculative"] else None
    configurator.max_speculative_num_draft_tokens = sizing.max_speculative_num_draft_tokens = lambda: drafts
    sizing.get_alloc_page_size = lambda: 256
    layers = config["num_hidden_layers"]
    model = Namespace(
        qk_nope_head_dim=config["head_dim"] - config["qk_rope_head_dim"], qk_rope_head_dim=config["qk_rope_head_dim"],
        index_head_dim=config["index_head_dim"], context_len=524288, compress_ratios=config["compress_ratios"],
        window_size=config["sliding_window"], hf_config=Namespace(kv_source_layer_ids=[]),
    )  # fmt: skip
    algorithm = Namespace(
        is_none=lambda: not load["speculative"], is_eagle=lambda: load["speculative"], is_dspark=lambda: False
    )
    server_facts = Namespace(
        kv_cache_dtype_str="fp8_e4m3", model_config=model, layer_info=Namespace(start_layer=0, end_layer=layers),
        pp_size=1, pp_group=None, sliding_window_size=config["sliding_window"], page_size=256, attn_dp_size=1,
        spec_algorithm=algorithm, spec_aux_config=None,
    )  # fmt: skip
    return configurator.DSV4PoolConfigurator(server_facts).calculate_pool_sizes(budget, 256).max_total_num_tokens


if __name__ == "__main__":
    sys.meta_path.append(GpuOnly())
    asked = json.load(sys.stdin)
    with open(asked["config"], encoding="utf-8") as file:
        found = json.load(file)
    print("RESULT", json.dumps([size(load, found, asked["budget"]) for load in asked["loads"]]))
