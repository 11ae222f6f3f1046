"""The autouse fixture of conftest.py does what the other tests stand on."""

from __future__ import annotations

import pytest
import torch
from dsv4_kernels import testing
from dsv4_kernels.sparse_mla_decode import op


def test_fresh_memory_is_poison() -> None:
    assert torch.empty(3).isnan().all()
    assert torch.empty_like(torch.zeros(2, dtype=torch.bfloat16)).isnan().all()
    assert (torch.empty(2, dtype=torch.int32) == 0x7F7F7F7F).all()
    assert torch.empty(4, dtype=torch.uint8).view(torch.float8_e4m3fn).float().isnan().all()


def test_scratch_that_no_kernel_wrote_is_seen(generator: torch.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """The splits' kernel does nothing here, so what the combine reads is scratch as it was allocated."""

    class Nothing:
        def __getitem__(self, _: object) -> object:
            return lambda *_args, **_kwargs: None

    monkeypatch.setattr(op, "sparse_mla_split_kernel", Nothing())
    i = testing.sparse_mla_inputs(1, 16, 64, 0, generator)
    out = op.sparse_mla_decode(i.q, i.k_cache, i.indices, i.topk_length, None, i.softmax_scale)
    assert out.isnan().any()
