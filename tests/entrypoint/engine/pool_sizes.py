"""Size the KV pools of DeepSeek-V4-Flash as the engine would under a server's command line; prints JSON.

    python pool_sizes.py BUDGET[,BUDGET...] --config FILE ...

Run by the engine's interpreter. The arguments take the engine's own resolution and are published as its scheduler
publishes them, so the branch that sizes the pools is the one that the server will take. What is stood in for: the
cards (plan/resolve/engine_side.py), packages that only a GPU needs, and the few facts that the engine reads from the
loaded model and not from its arguments.
"""

import json
import sys
from pathlib import Path
from types import SimpleNamespace as Namespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dsv4_pd.plan.resolve.engine_side import GpuOnly, stand_in
else:  # the engine's interpreter has no dsv4_pd: only this one file of it
    sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "entrypoint/dsv4_pd/plan/resolve"))
    from engine_side import GpuOnly, stand_in


def loaded_model(args: Any) -> Namespace:
    """What the engine takes from the model that it has loaded: shapes and how it is split."""
    from sglang.srt.arg_groups.model_override_base import model_config_of
    from sglang.srt.runtime_context import get_spec
    from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

    config = model_config_of(args)
    return Namespace(
        kv_cache_dtype_str="fp8_e4m3", model_config=config, is_hybrid_swa=True,
        layer_info=Namespace(start_layer=0, end_layer=config.num_hidden_layers),
        pp_size=1, pp_group=None, sliding_window_size=config.window_size, page_size=256, attn_dp_size=1,
        spec_algorithm=SpeculativeAlgorithm.from_string(get_spec().speculative_algorithm), spec_aux_config=None,
    )  # fmt: skip


def main() -> None:
    sys.meta_path.append(GpuOnly())
    stand_in(8, 97887 << 20, (12, 0))
    from sglang.srt.server_args import prepare_server_args, set_global_server_args_for_scheduler

    args = prepare_server_args(sys.argv[2:])
    args.resolve_once()
    set_global_server_args_for_scheduler(args)
    from sglang.srt.model_executor.pool_configurator import create_memory_pool_configurator

    sizer = create_memory_pool_configurator(loaded_model(args))
    found = [sizer.calculate_pool_sizes(int(budget), 256) for budget in sys.argv[1].split(",")]
    most = args.max_total_tokens
    pinned = sizer.calculate_pool_sizes_from_max_tokens(most, 256) if most else None
    print("RESULT", json.dumps({
        "pinned": [pinned.max_total_num_tokens, pinned.swa_max_total_num_tokens] if pinned else None,
        "class": type(sizer).__name__, "ratio": sizer.swa_ratio, "cap": sizer.swa_cap_tokens,
        "pools": [[one.max_total_num_tokens, one.swa_max_total_num_tokens] for one in found],
    }))  # fmt: skip


if __name__ == "__main__":
    main()
