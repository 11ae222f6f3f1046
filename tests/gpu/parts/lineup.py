"""The single servers of the ring: the engine's own kernels, ours, ours with a planted fault, ours over two cards."""

from __future__ import annotations

from gpu.servers import Server

STOCK = Server("stock", 31000)
OURS = Server("ours", 31100, "ours")
WRONG = (Server("scale", 31200, "ours", "scale"), Server("page", 31300, "ours", "page"))
SERVERS = (STOCK, OURS, *WRONG)

# sm_90 with tensor parallelism turns FlashInfer's fused all-reduce on by itself: sm_120 never takes that path, its
# module compiles for minutes without a word, and one of its backends uses NVLink multicast.
SPLIT: dict[str, str | None] = {"enforce-disable-flashinfer-allreduce-fusion": "", "tensor-parallel-size": "2"}
ALONE = Server("tp1", 33000, "ours")
NCCL = Server("tp2-nccl", 33100, "ours", cards="0,1", flags=SPLIT, env={"SGLANG_ENABLE_PCIE_IPC_ALLREDUCE": "0"})
IPC = Server("tp2-ipc", 33200, "ours", cards="0,1", flags=SPLIT, env={"SGLANG_ENABLE_PCIE_IPC_ALLREDUCE": "1"})
