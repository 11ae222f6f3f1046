"""The servers of part `offload`, and the engine's counter that it reads. Standard library alone."""

from __future__ import annotations

import re

from gpu.servers import Server

COUNT, CONTEXT = 16, 12000  # prompts, and tokens of the longest
POOL = 98_304  # tokens of a card's pool: less than the prompts of CASE together
SMALL: dict[str, str | None] = {
    "chunked-prefill-size": "4096",
    "enable-cache-report": "",
    "max-running-requests": "8",
    "cuda-graph-max-bs-decode": "8",
    "max-total-tokens": str(POOL),
    "mem-fraction-static": "0.3",
    "swa-full-tokens-ratio": "0.25",
}
PLAIN = Server("plain", 34000, "ours", flags=SMALL)
KEPT = Server("kept", 34100, "ours", flags={**SMALL, "enable-hierarchical-cache": "", "hicache-ratio": "4"})


def counted(metrics: str) -> float:
    """Prompt tokens whose KV came from host memory.

    >>> counted('sglang:cached_tokens_total{cache_source="host",m="x"} 1.5e+03')
    1500.0
    """
    rows = re.findall(r'^sglang:cached_tokens_total\{[^}]*cache_source="host"[^}]*\} (\S+)', metrics, re.MULTILINE)
    return sum(map(float, rows))
