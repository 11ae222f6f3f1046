"""From the narrow model that is trained to the wide one that is served: the same function, exactly but for rounding.

A step of training costs a third at a residual width of 256 of what it does at 4096, and what a short training can reach
is a matter of steps. So the narrow model is repeated: the wide residual stream is `tiles` copies of the narrow one,
each copy with its channels reordered and some of them negated. A matrix that reads the stream reads every copy and
takes the mean; one that writes it writes every copy; a root mean square over the copies is that of one. The ranks of
queries and outputs and the indexer's heads are repeated the same way. No two copies are in the same order, so that a
kernel which mixes up blocks of channels does not get away with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from gpu.model.shape import Shape

SEED = 20_261_130
GROUP = 32  # channels that share a scale in MXFP4: an order moves whole groups, and channels within them


@dataclass(frozen=True, slots=True)
class Copies:
    """Which narrow channel a wide one repeats, and its sign; `count`: how often each is repeated."""

    source: torch.Tensor  # int64 [wide]
    sign: torch.Tensor  # float32 [wide], 1 or -1
    count: int

    def written(self, weight: torch.Tensor) -> torch.Tensor:
        """[narrow, ...] to [wide, ...]: every copy is written."""
        sign = self.sign.to(weight.device, weight.dtype).view(-1, *[1] * (weight.ndim - 1))
        return weight[self.source.to(weight.device)] * sign

    def read(self, weight: torch.Tensor) -> torch.Tensor:
        """[..., narrow] to [..., wide]: the mean over the copies is read."""
        sign = self.sign.to(weight.device, weight.dtype)
        return weight[..., self.source.to(weight.device)] * sign / self.count

    def scales(self, weight: torch.Tensor) -> torch.Tensor:
        """A norm's weights [narrow] to [wide]: they follow the channel; the sign is already in what they multiply."""
        return weight[self.source.to(weight.device)]


def copies(narrow: int, count: int, seed: int, group: int = GROUP) -> Copies:
    """`count` copies of `narrow` channels, each in an order of its own; the same on every machine."""
    source, sign, generator = [], [], torch.Generator().manual_seed(SEED + seed)
    for _ in range(count):
        blocks = torch.randperm(narrow // group, generator=generator)[:, None] * group
        source.append((blocks + torch.randperm(group, generator=generator)).flatten())
        sign.append(1.0 - 2.0 * torch.randint(0, 2, (narrow,), generator=generator))
    return Copies(torch.cat(source), torch.cat(sign).float(), count)


def plain(narrow: int, count: int) -> Copies:
    """Copies one behind the other, in the same order: for heads, which no kernel can tell apart by their number."""
    return Copies(torch.arange(narrow).repeat(count), torch.ones(narrow * count), count)


class Widening:
    """Widens tensors by transformers' names; `shape` is the wide one."""

    def __init__(self, shape: Shape) -> None:
        narrow = shape.narrow()
        self.shape = shape
        self.hidden = hidden_copies(shape)
        self.rank = copies(narrow.q_rank, shape.rank_tiles, 1)
        self.output = copies(narrow.o_rank, shape.rank_tiles, 2)
        self.heads = plain(narrow.index_heads, shape.index_tiles)

    def tensor(self, name: str, value: torch.Tensor) -> torch.Tensor:
        """The wide tensor of that name; what has no width that is repeated stays as it is."""
        if ".indexer." in name:
            return self._indexer(name, value)
        if name.endswith(("embed_tokens.weight", "lm_head.weight", "gate.weight")):
            return self.hidden.written(value.T).T if "embed" in name else self.hidden.read(value)
        if name.endswith((".fn", "hc_fn")):
            return self.hidden.read(value.unflatten(-1, (self.shape.streams, -1))).flatten(-2)
        if name.endswith("norm.weight") and ".compressor." not in name and ".kv_norm." not in name:
            return (self.rank if "q_a_norm" in name else self.hidden).scales(value)
        return self._matrix(name, value)

    def _matrix(self, name: str, value: torch.Tensor) -> torch.Tensor:
        groups = self.shape.groups
        if name.endswith("q_a_proj.weight"):
            return self.rank.written(self.hidden.read(value))
        if name.endswith("self_attn.q_b_proj.weight"):
            return self.rank.read(value)
        if name.endswith("o_a_proj.weight"):
            by_group = value.unflatten(0, (groups, -1)).transpose(0, 1)  # [rank, groups, columns]
            return self.output.written(by_group).transpose(0, 1).flatten(0, 1)
        if name.endswith("o_b_proj.weight"):
            read = self.output.read(value.unflatten(1, (groups, -1))).flatten(1)
            return self.hidden.written(read)
        if name.endswith("down_proj.weight"):
            return self.hidden.written(value)
        if name.endswith(("kv_proj.weight", "gate_proj.weight", "up_proj.weight")):
            return self.hidden.read(value)
        return value

    def _indexer(self, name: str, value: torch.Tensor) -> torch.Tensor:
        if name.endswith("q_b_proj.weight"):
            by_head = value.unflatten(0, (-1, self.shape.index_dim))
            return self.rank.read(self.heads.written(by_head).flatten(0, 1))
        if name.endswith("weights_proj.weight"):
            # The scores are divided by the root of the heads' number, and summed over the copies.
            return self.hidden.read(self.heads.written(value)) / math.sqrt(self.heads.count)
        if name.endswith(("kv_proj.weight", "gate_proj.weight")):
            return self.hidden.read(value)
        return value


def hidden_copies(shape: Shape) -> Copies:
    """The residual stream's copies; the routed experts (model/experts.py) follow the same ones."""
    return copies(shape.hidden // shape.tiles, shape.tiles, 0)


def widened(shape: Shape, weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The wide model's weights without the routed experts, by transformers' names; `weights` are the narrow model's."""
    widening = Widening(shape)
    return {
        name: widening.tensor(name, value)
        for name, value in weights.items()
        if "experts." not in name or "shared" in name
    }
