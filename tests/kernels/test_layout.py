from __future__ import annotations

import pytest
import torch
from dsv4_kernels import layout, testing
from dsv4_kernels.layout import PageLayout
from dsv4_kernels.sparse_mla_decode.reference import dequantise


def token_offset(page: PageLayout, token: int) -> int:
    """Where a token's data begin, in bytes from the start of the cache."""
    return token // page.page_size * page.page_bytes + token % page.page_size * layout.TOKEN_BYTES


def scale_byte(page: PageLayout, token: int) -> int:
    """Where its scales begin: behind the data of its page."""
    start = token // page.page_size * page.page_bytes + page.scale_offset
    return start + token % page.page_size * layout.TOKEN_SCALE_BYTES


@pytest.mark.parametrize(
    ("page_size", "page_bytes", "scale_offset"), [(256, 149_760, 147_456), (64, 37_440, 36_864), (2, 1_728, 1_152)]
)
def test_page_bytes_are_the_engines(page_size: int, page_bytes: int, scale_offset: int) -> None:
    page = PageLayout.of(page_size)
    assert (page.page_bytes, page.scale_offset) == (page_bytes, scale_offset)
    assert page.page_bytes % layout.TOKEN_BYTES == 0
    assert page.page_bytes >= page_size * layout.ENTRY_BYTES


def test_last_scale_of_a_page_lies_before_the_next_page() -> None:
    for size in (layout.SWA_PAGE, layout.C4_PAGE, layout.C128_PAGE):
        page = PageLayout.of(size)
        assert scale_byte(page, size - 1) + layout.TOKEN_SCALE_BYTES <= token_offset(page, size)


def test_dequantise_reads_the_bytes_that_the_layout_names(generator: torch.Generator) -> None:
    cache = testing.attention_cache(3, layout.C128_PAGE, generator)
    raw = cache.as_strided((3 * cache.stride(0),), (1,)).cpu()
    token, page = 5, PageLayout.of(layout.C128_PAGE)
    at = token_offset(page, token)
    nope = raw[at : at + layout.NOPE_DIM].view(torch.float8_e4m3fn).double()
    exponent = raw[scale_byte(page, token) :][: layout.SCALE_GROUPS].double() - layout.UE8M0_BIAS
    expected = nope * torch.exp2(exponent).repeat_interleave(layout.SCALE_GROUP)
    got = dequantise(cache, torch.tensor([token], device=cache.device))[0].cpu()
    assert torch.equal(got[: layout.NOPE_DIM], expected)
    rope = raw[at + layout.NOPE_DIM : at + layout.TOKEN_BYTES].view(torch.bfloat16).double()
    assert torch.equal(got[layout.NOPE_DIM :], rope)
