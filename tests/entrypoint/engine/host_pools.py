"""What the engine's own code makes of a server's host pools; prints JSON. Run by the engine's interpreter.

    python host_pools.py FULL_TOKENS,WINDOW_TOKENS --config FILE ...

The arguments take the engine's resolution. The pools on the card are stood in for by their sizes, which is all that the
function reads. `--hicache-size` and no size at all are tried as well, for their exact refusal.
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


def refused(call: Any) -> str:
    """The words with which the engine refuses."""
    try:
        call()
    except ValueError as error:
        return str(error)
    return ""


def main() -> None:
    sys.meta_path.append(GpuOnly())
    stand_in(8, 97887 << 20, (12, 0))
    from sglang.srt.server_args import prepare_server_args, set_global_server_args_for_scheduler

    args = prepare_server_args(sys.argv[2:])
    args.resolve_once()
    set_global_server_args_for_scheduler(args)
    from sglang.srt.environ import envs
    from sglang.srt.mem_cache import hicache_auto_size
    from sglang.srt.mem_cache.hybrid_cache import hybrid_pool_assembler as assembler
    from sglang.srt.runtime_context import get_context, get_memory

    full, window = map(int, sys.argv[1].split(","))
    allocator = Namespace(size_full=full, get_kvcache=lambda: Namespace(size=full))
    params = Namespace(token_to_kv_pool_allocator=allocator)

    def pages() -> Any:
        pool = Namespace(size=full, swa_size=window)
        return assembler._deepseek_v4_num_host_pages(params=params, kvcache=pool, page_size=256, swa_page_size=256)

    memory = get_memory()
    found: dict[str, Any] = {
        "on": memory.enable_hierarchical_cache, "ratio": memory.hicache_ratio, "size": memory.hicache_size,
        "fraction": memory.hicache_host_memory_fraction, "layout": memory.hicache_mem_layout,
        "io": memory.hicache_io_backend, "policy": memory.hicache_write_policy, "radix": not memory.disable_radix_cache,
        "pages": pages(), "direct_windows": envs.SGLANG_OPT_SM120_DIRECT_SWA_KV.get(),
    }  # fmt: skip
    get_context().override("test", hicache_size=10)
    found["sized"] = refused(pages)
    found["automatic"] = refused(lambda: hicache_auto_size._estimate_hicache_bytes(params, None))
    direct = {"logical_page_size": 256, "physical_page_size": 64, "consumer": "DeepSeek-V4 HiCache"}
    found["direct"] = refused(lambda: assembler._require_single_row_dsv4_swa_pages(**direct))
    print("RESULT", json.dumps(found))


if __name__ == "__main__":
    main()
