"""Byte layouts, sizes and index conventions of the caches. The only place where they are written down."""

from __future__ import annotations

from dataclasses import dataclass

# --- model (DeepSeek-V4-Flash) ---------------------------------------------------------------------------
HEAD_DIM = 512
NOPE_DIM = 448
ROPE_DIM = 64
HIDDEN = 4096
HC_MULT = 4
HC_MIXES = (2 + HC_MULT) * HC_MULT  # 24: 4 pre, 4 post, 16 comb
SINKHORN_ITERS = 20

# --- attention cache: per token 448 e4m3 + 64 bf16, and apart from them 7 UE8M0 scales + 1 pad -------------
SCALE_GROUP = 64
SCALE_GROUPS = NOPE_DIM // SCALE_GROUP  # 7
TOKEN_BYTES = NOPE_DIM + 2 * ROPE_DIM  # 576
TOKEN_SCALE_BYTES = 8
ENTRY_BYTES = TOKEN_BYTES + TOKEN_SCALE_BYTES  # 584: last dimension of the engine's view
UE8M0_BIAS = 127  # scale = 2^(byte - 127)
SWA_PAGE = 256
C4_PAGE = 64
C128_PAGE = 2
SWA_WINDOW = 128
INDEX_TOPK = 512

# --- indexer cache: a page of 64 keys is 64 x 128 e4m3, then 64 fp32 scales --------------------------------
INDEX_HEADS = 64
INDEX_DIM = 128
INDEX_PAGE = 64
INDEX_PAGE_DATA = INDEX_PAGE * INDEX_DIM  # 8192
INDEX_KEY_BYTES = INDEX_DIM + 4  # 132: the key and its scale
INDEX_PAGE_BYTES = INDEX_PAGE * INDEX_KEY_BYTES  # 8448

# --- limits ----------------------------------------------------------------------------------------------
SM120_SHARED_BYTES = 101_376  # largest opt-in block on sm_120 (99 KB)


@dataclass(frozen=True, slots=True)
class PageLayout:
    """One page of the attention cache.

    >>> PageLayout.of(256).page_bytes, PageLayout.of(64).page_bytes, PageLayout.of(2).page_bytes
    (149760, 37440, 1728)
    """

    page_size: int
    scale_offset: int
    page_bytes: int

    @classmethod
    def of(cls, page_size: int) -> PageLayout:
        # the engine pads a page to a multiple of one token's data, so that stride(0) stays a multiple of 576
        padded = -(-page_size * ENTRY_BYTES // TOKEN_BYTES) * TOKEN_BYTES
        return cls(page_size, page_size * TOKEN_BYTES, padded)
