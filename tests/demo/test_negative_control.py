"""Whether comparing tokens would notice a KV cache that arrived wrong."""

from __future__ import annotations

import pytest
from support.pair import Pair
from support.prompts import PROMPTS, Reference, generated

pytestmark = pytest.mark.pair


def test_wrong_kv_blocks_show_in_the_tokens(tmp_path_factory: pytest.TempPathFactory, reference: Reference) -> None:
    """The negative control of the first test: with other blocks sent, only prefill's own token is right."""
    own = reference(PROMPTS)
    with Pair(tmp_path_factory.mktemp("corrupt"), DSV4_CPU_PD_CORRUPT="1") as corrupt:
        for (text, count), expected in zip(PROMPTS, own, strict=True):
            tokens = generated(corrupt, text, count)["output_ids"]
            assert tokens[0] == expected["greedy"][0]
            assert tokens != expected["greedy"], text[:60]
