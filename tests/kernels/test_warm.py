"""The prebuilt cache: filled without a GPU, complete, and where there is a GPU, what a real launch reads."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from dsv4_kernels import cards, present
from dsv4_kernels.aot import warm

CAPABILITY = "".join(map(str, torch.cuda.get_device_capability())) if torch.cuda.is_available() else "120"
# on a GPU its own count, as the op will read it; without one the table's
SMS = ("--sms", str(present.card_of(torch.device("cuda", 0)).sms)) if torch.cuda.is_available() else ()
ROOT = Path(__file__).resolve().parents[2]
SOURCES = os.pathsep.join(str(ROOT / name) for name in ("kernels", "hooks"))
LAUNCH = """
import torch
from dsv4_kernels.testing import sparse_mla_inputs
from dsv4_kernels.sparse_mla_decode.op import sparse_mla_decode
generator = torch.Generator(device="cuda").manual_seed(1)
for batch in (1, 5, 8, 16, 33, 64):
    for width in (0, 512):
        i = sparse_mla_inputs(batch, 16, 128, width, generator)
        sparse_mla_decode(i.q, i.k_cache, i.indices, i.topk_length, i.attn_sink, i.softmax_scale,
                          i.extra_k_cache, i.extra_indices, i.extra_topk_length)
torch.cuda.synchronize()
"""


def python(*words: str, **environ: str) -> str:
    """In a process of its own: this one may hold the kernels as interpreter functions."""
    inherited = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environ = {**inherited, "PYTHONPATH": SOURCES, **environ}
    done = subprocess.run([sys.executable, *words], env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def compiled(text: str) -> int:
    found = re.search(r": (\d+) kernels compiled", text)
    assert found, text
    return int(found[1])


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("triton")
    assert compiled(python("-m", "dsv4_kernels.aot.warm", str(folder), CAPABILITY, *SMS)) >= 20
    return folder


def test_nothing_is_left_to_compile(cache: Path) -> None:
    assert compiled(python("-m", "dsv4_kernels.aot.warm", str(cache), CAPABILITY, *SMS)) == 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="of the card that the image is built for")
def test_it_holds_what_the_plugin_asks_for_on_the_targets_188_sms(cache: Path) -> None:
    """The tilings of 132 SMs ask for other kernels: a cache filled for those would leave some to a running server."""
    assert compiled(python("-m", "dsv4_kernels.aot.warm", str(cache), "120", "--sms", "188")) == 0
    assert cards.of_capability(120).sms == 188


def test_every_installed_op_is_in_it(cache: Path) -> None:
    names = {path.stem for path in cache.glob("*/*.cubin")}
    assert names == {"sparse_mla_split_kernel", "sparse_mla_combine_kernel", "mhc_mix_kernel", "mhc_finish_kernel"}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_real_launch_compiles_nothing(cache: Path) -> None:
    before = warm.binaries(cache)
    python("-c", LAUNCH, TRITON_CACHE_DIR=str(cache))
    assert warm.binaries(cache) == before
