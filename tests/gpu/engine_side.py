"""Checks that need the engine's environment and no card: run by test_engine_side.py, one name a process."""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy
import torch

from gpu import forced, variants_side
from gpu.compare import difference
from gpu.model import checkpoint, experts, formats, initial, reference, steps, train, widen
from gpu.model.shape import Shape

ROOT = Path(__file__).resolve().parents[2]
TINY = dataclasses.replace(Shape(heads=16), **train.TINY)


def flags_are_the_engine_s() -> None:
    import argparse

    from sglang.srt.server_args import ServerArgs

    from gpu.parts import lineup, memory
    from gpu.servers import Server

    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    sized = Server("m", 1, flags={**memory.FREE, "swa-full-tokens-ratio": "0.02"})
    every = [*lineup.SERVERS, lineup.ALONE, lineup.NCCL, lineup.IPC, sized]
    for server in every:
        words = server.command()[3:]
        parser.parse_args(words)
        assert all(word in parser._option_string_actions for word in words if word.startswith("--")), words


def fp8_and_mxfp4_come_back() -> None:
    torch.manual_seed(0)
    weight = torch.randn(300, 384) * torch.logspace(-3, 3, 300)[:, None]
    quantised, scale = formats.to_fp8(weight)
    back = formats.from_fp8(quantised, scale)
    # e4m3 keeps three bits behind the leading one: half a step is 1/16 of a value, below the smallest normal less
    blocks = scale.float().repeat_interleave(128, 0)[:300].repeat_interleave(128, 1)[:, :384]
    assert ((back - weight).abs() <= weight.abs() / 16 + blocks * 2**-10).all()
    assert (torch.log2(scale.float()) % 1 == 0).all()
    packed, scales = formats.to_mxfp4(weight)
    exact = formats.from_mxfp4(packed, scales)
    again, same = formats.to_mxfp4(exact)
    assert torch.equal(formats.from_mxfp4(again, same), exact)
    assert packed.shape == (300, 192) and scales.shape == (300, 12)


def mxfp4_is_read_as_the_engine_reads_it() -> None:
    from sglang.srt.layers.quantization.fp8 import cast_e2m1fn_to_e4m3fn

    codes, scales = experts.packed(dataclasses.replace(TINY, hidden=256, expert_width=128), 1, "w1", "cpu")
    weight, scale = cast_e2m1fn_to_e4m3fn(codes[0], scales[0])
    theirs = weight.float() * scale.float().repeat_interleave(128, 0).repeat_interleave(128, 1)
    assert torch.equal(theirs, formats.from_mxfp4(codes[0], scales[0]))


def rope_is_the_engine_s() -> None:
    from sglang.kernels.ops.attention.dsv4.rope import precompute_freqs_cis
    from transformers.models.deepseek_v4.modeling_deepseek_v4 import DeepseekV4RotaryEmbedding

    rotary = DeepseekV4RotaryEmbedding(reference.config_of(Shape()))
    for name, base, length in (("main", 10000.0, 0), ("compress", 160000.0, 4096)):
        theirs = precompute_freqs_cis(
            dim=64, seqlen=4096, original_seq_len=length, base=base, factor=16, beta_fast=32, beta_slow=1
        )
        torch.testing.assert_close(torch.angle(theirs[1]), getattr(rotary, f"{name}_inv_freq"), rtol=0, atol=1e-6)
        assert getattr(rotary, f"{name}_attention_scaling") == 1.0


def narrow() -> Any:
    """The narrow model, before any training."""
    model = reference.empty(TINY.narrow(), "cpu", torch.float32)
    initial.initialise(model, TINY.narrow())
    return model


def made(folder: Path) -> Any:
    weights = widen.widened(TINY, train.kept(narrow()))
    size = checkpoint.write(TINY, weights, ROOT / "demo/model", folder, "cpu")
    assert size > 1e6
    return reference.load(folder, "cpu")


def the_wide_model_is_the_narrow_one() -> None:
    model, wide = narrow(), reference.empty(TINY, "cpu", torch.float32)
    torch.manual_seed(3)
    for name, value in train.kept(model).items():
        if name.endswith((".fn", "hc_fn", "norm.weight", "gate.weight")):  # they start even: nothing would be mixed up
            value.mul_(1 + 0.3 * torch.randn(value.shape))
    own = {**dict(wide.named_parameters()), **dict(wide.named_buffers())}
    with torch.no_grad():
        for name, value in widen.widened(TINY, train.kept(model)).items():
            own[name].copy_(value)
        for layer in range(TINY.layers):
            block = wide.model.layers[layer].mlp.experts
            up, down = experts.unpacked(TINY, layer, "cpu", torch.float32)
            block.gate_up_proj.copy_(up)
            block.down_proj.copy_(down)
        ids = torch.randint(0, 1500, (2, 300), generator=torch.Generator().manual_seed(4))
        first = torch.log_softmax(model(input_ids=ids, use_cache=False).logits, -1)
        second = torch.log_softmax(wide(input_ids=ids, use_cache=False).logits, -1)
        own["model.layers.2.self_attn.q_a_proj.weight"][:, :32] *= -1  # one block of one copy
        third = torch.log_softmax(wide(input_ids=ids, use_cache=False).logits, -1)
    torch.testing.assert_close(second, first, rtol=0, atol=2e-4)
    assert (third - first).abs().max() > 1e-2


def a_checkpoint_is_read_back_and_in_chunks() -> None:
    with tempfile.TemporaryDirectory() as folder:
        oracle = made(Path(folder))
        index = torch.load  # the whole layout is named by the index
        assert index and (Path(folder) / "model.safetensors.index.json").stat().st_size > 1000
        tokens = torch.randint(0, 1536, (300,), generator=torch.Generator().manual_seed(1)).tolist()
        whole = reference.log_probabilities(oracle, tokens, 40)
        for chunk in (64, 100):
            torch.testing.assert_close(reference.log_probabilities(oracle, tokens, 40, chunk), whole, rtol=0, atol=2e-4)
        assert torch.allclose(whole.exp().sum(-1), torch.ones(40), atol=1e-4)


def training_sees_the_window_that_the_model_has() -> None:
    model = narrow()
    ids = torch.randint(0, 1500, (2, 200), generator=torch.Generator().manual_seed(2))
    mask = steps.window_mask(200, TINY.window, "cpu", torch.float32).expand(2, -1, -1, -1)
    with torch.no_grad():
        own = model.model(input_ids=ids, use_cache=False).last_hidden_state
        ours = model.model(input_ids=ids, attention_mask={"sliding_attention": mask}, use_cache=False).last_hidden_state
    assert torch.equal(own, ours)
    bias = initial.by_slot(4, 64)
    assert (bias > 0).sum() == 32 and ((bias > 0).sum(1) == 8).all()


class Request:
    def __init__(self) -> None:
        self.output_ids: list[int] = []


def tokens_are_forced_and_middle_chunks_dropped() -> None:
    from sglang.srt.sampling.custom_logit_processor import CustomLogitProcessor

    processor = CustomLogitProcessor.from_str(forced.processor())
    with tempfile.TemporaryDirectory() as folder:
        file, request = str(Path(folder) / "a.npy"), Request()
        asked = [{"tokens": [3, 4], "file": file, "__req__": request}, None]
        rows = torch.randn(4, 2, 9, generator=torch.Generator().manual_seed(3))
        processor(rows[0].clone(), asked)  # a middle chunk of the prompt: sampled, and dropped by the engine
        for step, token in enumerate((3, 4)):
            out = processor(rows[1 + step].clone(), asked)
            assert out[0].argmax() == token and torch.equal(out[1], rows[1 + step][1])
            request.output_ids.append(token)
        found = numpy.load(file)
        numpy.testing.assert_allclose(found, torch.log_softmax(rows[1:3, 0], -1).numpy(), rtol=1e-6)
        assert torch.equal(processor(rows[3].clone(), asked), rows[3])  # after the last token nothing is touched


def a_fault_changes_one_scale_of_each_entry_and_nothing_else() -> None:
    from dsv4_ring import faults

    for dtype in (torch.uint8, torch.float8_e4m3fn):  # the engine calls its bytes float8
        pages, slots, stride = 5, 64, 37440
        raw = torch.randint(0, 120, (pages, stride), dtype=torch.uint8)
        cache = raw.view(dtype)[:, : slots * 584].view(pages, slots, 1, 584)
        wrong = faults.with_scale_off(cache)
        assert wrong.dtype == dtype and wrong.stride() == cache.stride()
        now = torch.as_strided(wrong.view(torch.uint8), (pages, stride), (stride, 1))
        changed = (now != raw).nonzero()
        assert len(changed) == pages * slots
        assert set((changed[:, 1] - slots * 576).tolist()) == {slot * 8 + faults.GROUP for slot in range(slots)}


def a_page_fault_moves_valid_indices_alone() -> None:
    from dsv4_ring import faults

    extra = torch.zeros(4, 64, 1, 584)
    indices = torch.tensor([[[0, 63, 255, -1]]], dtype=torch.int32)
    moved = faults.page_off(None, None, None, None, None, 1.0, extra, indices, None)[7]
    assert moved.tolist() == [[[64, 127, 63, -1]]]


def distances_are_what_they_say() -> None:
    one = numpy.log(numpy.array([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]]))
    other = numpy.log(numpy.array([[0.25, 0.5, 0.25], [0.1, 0.8, 0.1]]))
    found = difference(one, other, numpy.array([0, 1]))
    assert numpy.isclose(found.dlogprob_mean, numpy.log(2) / 2) and numpy.isclose(found.dlogprob_max, numpy.log(2))
    assert numpy.isclose(found.kl_mean, (0.25 * numpy.log(2)) / 2) and found.agree == 0.5


CHECKS = (
    flags_are_the_engine_s,
    fp8_and_mxfp4_come_back,
    mxfp4_is_read_as_the_engine_reads_it,
    rope_is_the_engine_s,
    the_wide_model_is_the_narrow_one,
    a_checkpoint_is_read_back_and_in_chunks,
    training_sees_the_window_that_the_model_has,
    tokens_are_forced_and_middle_chunks_dropped,
    a_fault_changes_one_scale_of_each_entry_and_nothing_else,
    a_page_fault_moves_valid_indices_alone,
    distances_are_what_they_say,
    *variants_side.CHECKS,
)


def main() -> int:
    torch.set_num_threads(1)
    failed = 0
    for check in CHECKS:
        try:
            check()
        except Exception as error:
            print(f"FAILED {check.__name__}: {type(error).__name__}: {error}", flush=True)
            failed = 1
        else:
            print(f"passed {check.__name__}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
