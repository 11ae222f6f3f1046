"""Which all-reduce the engine will use."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, ok, warn
from dsv4_pd.plan.situation import Situation


def _run(s: Situation) -> Finding:
    if any(gpu.nvlinks for gpu in s.gpus):
        return ok("NVLink: the engine's custom all-reduce")
    matrix = [word for row in s.facts.peer_access for word in row if word != "-"]
    peers = bool(matrix) and all(word == "ok" for word in matrix)
    if s.settings.pcie_allreduce == "off":
        return warn("no NVLink, DSV4_PCIE_ALLREDUCE=off: NCCL", "set DSV4_PCIE_ALLREDUCE=auto unless peer copies fail")
    if not peers:
        return ok("no NVLink and no full peer access: NCCL")
    return ok("no NVLink: the engine's PCIe all-reduce (SGLANG_ENABLE_PCIE_IPC_ALLREDUCE=1)")


CHECK = Check(
    name="all-reduce",
    place=50,
    symptom="decoding at a fraction of the expected speed, GPUs waiting on each other",
    why="Without NVLink SGLang's custom all-reduce is off; its PCIe variant is off by default, and NCCL is slower.",
    source="SGLang 0.5.23 environ.py and pcie_ipc_ar.py (SGLANG_ENABLE_PCIE_IPC_ALLREDUCE)",
    run=_run,
)
