"""Whether a server compiles: a compiler is seen among its processes. A scheduler that waits for one is no hung one."""

from __future__ import annotations

from pathlib import Path

from dsv4_pd.run.guard.watch import tree

PROC = Path("/proc")
# The kernel's names of CUDA's, LLVM's, GCC's and Triton's programs. Workers that wait for something to compile are
# not among them, nor are ninja and make, which only start compilers.
NAMES = frozenset({
    "nvcc", "cicc", "ptxas", "ptxas-blackwell", "fatbinary", "nvlink", "cudafe++", "tvmc", "tilelang",
    "cc1plus", "cc1", "c++", "g++", "gcc", "cc", "as", "ld", "collect2", "lto1", "clang", "clang++", "ld.lld", "lld",
})  # fmt: skip


def run(group: int) -> bool:
    """Whether one of the group's processes, or of their children, is a compiler that has not ended."""
    return any(_name(pid) in NAMES for pid in tree.members(group))


def _name(pid: int) -> str:
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return ""
    name, _, rest = text.partition("(")[2].rpartition(")")
    return "" if rest.split()[:1] in (["Z"], ["X"]) else name
