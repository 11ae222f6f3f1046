"""Random and hostile inputs for tests and benchmarks. Caches are random bytes where any byte is valid."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from dsv4_kernels import layout
from dsv4_kernels.layout import PageLayout


def random_e4m3(shape: tuple[int, ...], generator: torch.Generator, spread: float = 1.0) -> torch.Tensor:
    """Normal values as e4m3 bytes."""
    values = torch.randn(shape, generator=generator, device=generator.device) * spread
    return values.clamp(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8)


def attention_cache(
    pages: int,
    page_size: int,
    generator: torch.Generator,
    scale_bytes: tuple[int, int] = (117, 124),
    stride: int | None = None,
) -> torch.Tensor:
    """uint8 view [pages, page_size, 1, 584] with the engine's page stride; padding bytes are NaN codes."""
    shape = PageLayout.of(page_size)
    stride = stride or shape.page_bytes
    device = generator.device
    raw = torch.full((pages, stride), 0xFF, dtype=torch.uint8, device=device)
    data = raw[:, : shape.scale_offset].view(pages, page_size, layout.TOKEN_BYTES)
    data[..., : layout.NOPE_DIM] = random_e4m3((pages, page_size, layout.NOPE_DIM), generator, 60.0)
    rope = torch.randn((pages, page_size, layout.ROPE_DIM), generator=generator, device=device)
    data[..., layout.NOPE_DIM :] = rope.to(torch.bfloat16).view(torch.uint8)
    last = shape.scale_offset + page_size * layout.TOKEN_SCALE_BYTES
    scales = raw[:, shape.scale_offset : last].view(pages, page_size, layout.TOKEN_SCALE_BYTES)
    scales[..., : layout.SCALE_GROUPS] = torch.randint(
        *scale_bytes, (pages, page_size, layout.SCALE_GROUPS), generator=generator, device=device
    ).to(torch.uint8)
    return raw.as_strided(
        (pages, page_size, 1, layout.ENTRY_BYTES), (stride, layout.ENTRY_BYTES, layout.ENTRY_BYTES, 1)
    )


def spread_indices(rows: int, width: int, tokens: int, generator: torch.Generator) -> torch.Tensor:
    """int32 [rows, 1, width], distinct within a row where the pool allows."""
    if tokens >= width * 4:
        start = torch.randint(tokens, (rows, 1), generator=generator, device=generator.device)
        step = tokens // width
        jitter = torch.randint(step, (rows, width), generator=generator, device=generator.device)
        ids = (start + torch.arange(width, device=generator.device) * step + jitter) % tokens
    else:
        ids = torch.randint(tokens, (rows, width), generator=generator, device=generator.device)
    return ids.to(torch.int32).view(rows, 1, width)


@dataclass(slots=True)
class SparseMlaInputs:
    q: torch.Tensor
    k_cache: torch.Tensor
    indices: torch.Tensor
    topk_length: torch.Tensor | None
    attn_sink: torch.Tensor | None
    softmax_scale: float
    extra_k_cache: torch.Tensor | None
    extra_indices: torch.Tensor | None
    extra_topk_length: torch.Tensor | None


def sparse_mla_inputs(
    batch: int,
    heads: int,
    main_width: int,
    extra_width: int,
    generator: torch.Generator,
    *,
    main_page: int = layout.SWA_PAGE,
    extra_page: int = layout.C4_PAGE,
    main_pages: int = 4,
    extra_pages: int = 16,
) -> SparseMlaInputs:
    device = generator.device
    q = torch.randn((batch, 1, heads, layout.HEAD_DIM), generator=generator, device=device).to(torch.bfloat16)
    extra = attention_cache(extra_pages, extra_page, generator) if extra_width else None
    return SparseMlaInputs(
        q=q,
        k_cache=attention_cache(main_pages, main_page, generator),
        indices=spread_indices(batch, main_width, main_pages * main_page, generator),
        topk_length=torch.full((batch,), main_width, dtype=torch.int32, device=device),
        attn_sink=torch.randn((heads,), generator=generator, device=device),
        softmax_scale=layout.HEAD_DIM**-0.5,
        extra_k_cache=extra,
        extra_indices=spread_indices(batch, extra_width, extra_pages * extra_page, generator) if extra_width else None,
        extra_topk_length=torch.full((batch,), extra_width, dtype=torch.int32, device=device) if extra_width else None,
    )


def relative_error(out: torch.Tensor, reference: torch.Tensor) -> float:
    """||out - ref|| / ||ref||; NaN and inf never pass a `<` comparison."""
    difference = (out.double() - reference.double()).norm()
    return float(difference / reference.double().norm().clamp_min(1e-30))


@dataclass(slots=True)
class IndexerInputs:
    q: torch.Tensor
    kv: torch.Tensor
    weights: torch.Tensor
    seq_lens: torch.Tensor
    page_table: torch.Tensor

    @property
    def max_seq_len(self) -> int:
        return int(self.page_table.shape[1]) * layout.INDEX_PAGE


def index_cache(pages: int, generator: torch.Generator) -> torch.Tensor:
    """uint8 [pages, 64, 1, 132] whose pages are 64 x 128 e4m3 and then 64 fp32 scales."""
    raw = torch.empty((pages, layout.INDEX_PAGE_BYTES), dtype=torch.uint8, device=generator.device)
    raw[:, : layout.INDEX_PAGE_DATA] = random_e4m3((pages, layout.INDEX_PAGE_DATA), generator, 30.0)
    scale = torch.rand((pages, layout.INDEX_PAGE), generator=generator, device=generator.device) * 0.02 + 0.001
    raw[:, layout.INDEX_PAGE_DATA :] = scale.view(torch.uint8)
    return raw.view(pages, layout.INDEX_PAGE, 1, layout.INDEX_DIM + 4)


def indexer_inputs(seq_lens: list[int], table_pages: int, pool_pages: int, generator: torch.Generator) -> IndexerInputs:
    device, batch = generator.device, len(seq_lens)
    order = torch.randperm(pool_pages, generator=generator, device=device).to(torch.int32)
    table = torch.zeros((batch, table_pages), dtype=torch.int32, device=device)
    start = 0
    for row, length in enumerate(seq_lens):
        count = -(-length // layout.INDEX_PAGE)
        ids = (start + torch.arange(count, device=device)) % pool_pages
        table[row, :count] = order[ids]
        start += count
    shape = (batch, 1, layout.INDEX_HEADS, layout.INDEX_DIM)
    weights = torch.randn((batch, layout.INDEX_HEADS), generator=generator, device=device)
    return IndexerInputs(
        q=random_e4m3(shape, generator, 2.0).view(torch.float8_e4m3fn),
        kv=index_cache(pool_pages, generator),
        weights=weights * (layout.INDEX_DIM * layout.INDEX_HEADS) ** -0.5,
        seq_lens=torch.tensor(seq_lens, dtype=torch.int32, device=device),
        page_table=table,
    )


@dataclass(slots=True)
class MhcInputs:
    x: torch.Tensor
    residual: torch.Tensor
    post: torch.Tensor
    comb: torch.Tensor
    fn: torch.Tensor
    scale: torch.Tensor
    base: torch.Tensor
    norm_weight: torch.Tensor


def mhc_inputs(tokens: int, generator: torch.Generator) -> MhcInputs:
    device = generator.device
    hc, hidden = layout.HC_MULT, layout.HIDDEN

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, device=device)

    return MhcInputs(
        x=normal(tokens, hidden).to(torch.bfloat16),
        residual=normal(tokens, hc, hidden).to(torch.bfloat16),
        post=torch.sigmoid(normal(tokens, hc, 1)) * 2,
        comb=torch.softmax(normal(tokens, hc, hc), dim=2),
        fn=normal(layout.HC_MIXES, hc * hidden) * (hc * hidden) ** -0.5,
        scale=torch.rand((3,), generator=generator, device=device) + 0.5,
        base=normal(layout.HC_MIXES) * 0.5,
        norm_weight=(1 + 0.1 * normal(hidden)).to(torch.bfloat16),
    )
