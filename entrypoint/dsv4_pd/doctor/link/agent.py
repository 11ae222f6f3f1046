"""One end of the KV-link test, run by the engine's interpreter: `python agent.py prefill|decode SPEC`.

SPEC is JSON: device ("cpu" or "cuda"), ranks (CUDA ordinals, one per rank), bytes, rounds, seed. Both ends speak one
JSON object a line on standard input and output. prefill writes into decode's memory, as the engine's transfer does.
Stands alone: it imports nothing of dsv4_pd, which the engine's environment does not have.
"""

from __future__ import annotations

import base64
import ctypes
import importlib
import importlib.util
import json
import mmap
import random
import sys
import time
from typing import Any

_CHUNK = 4 << 20  # one descriptor; the engine moves pages of 150 KB to some MB
_POISON = 0xA5


def pattern(size: int, seed: int) -> bytes:
    """Bytes that both ends can make: any shifted, repeated or missing part shows. In pieces: randbytes ends at 2^28."""
    source = random.Random(seed)  # noqa: S311 (both ends must make the same bytes)
    return b"".join(source.randbytes(min(_CHUNK, size - at)) for at in range(0, size, _CHUNK))


class Host:
    """Host memory, as the CPU engine's KV pool is."""

    kind = "DRAM"

    def __init__(self, size: int, device: int) -> None:
        self._map = mmap.mmap(-1, size)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self.device = 0

    def fill(self, data: bytes) -> None:
        self._map[:] = data

    def read(self) -> bytes:
        return self._map[:]


class Cuda:
    """GPU memory from the allocator that the engine uses, so that its settings (expandable segments) count."""

    kind = "VRAM"

    def __init__(self, size: int, device: int) -> None:
        self._torch = importlib.import_module("torch")
        self._torch.cuda.set_device(device)
        self._tensor = self._torch.empty(size, dtype=self._torch.uint8, device=f"cuda:{device}")
        self.address = self._tensor.data_ptr()
        self.device = device

    def fill(self, data: bytes) -> None:
        self._tensor.copy_(self._torch.frombuffer(bytearray(data), dtype=self._torch.uint8))
        self._torch.cuda.synchronize(self.device)

    def read(self) -> bytes:
        found: bytes = self._tensor.cpu().numpy().tobytes()
        return found


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def hear() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        sys.exit(3)  # the other side of the pipe is gone
    message: dict[str, Any] = json.loads(line)
    return message


def nixl_api() -> tuple[Any, Any]:
    """NIXL's agent and its configuration. The package `nixl` imports torch only to pick one of these (4 s)."""
    for name in ("nixl_cu13", "nixl_cu12", "nixl"):
        if importlib.util.find_spec(name):
            module = importlib.import_module(f"{name}._api")
            return module.nixl_agent, module.nixl_agent_config
    raise ModuleNotFoundError("NIXL is not installed in this environment")


def make_agent(role: str, rank: int) -> Any:
    """A NIXL agent as the engine makes it: UCX only, transfer threads on prefill's side."""
    nixl_agent, nixl_agent_config = nixl_api()
    threads = 8 if role == "prefill" else 0
    agent = nixl_agent(f"{role}-{rank}", nixl_agent_config(backends=[], num_threads=threads))
    agent.create_backend("UCX", {"num_threads": str(threads)} if threads else {})
    return agent


def descriptors(agent: Any, memory: Any, address: int, size: int) -> Any:
    parts = [(address + at, min(_CHUNK, size - at), memory.device) for at in range(0, size, _CHUNK)]
    return agent.get_xfer_descs(parts, memory.kind)


def receive(agent: Any, memory: Any, spec: dict[str, Any], rank: int) -> None:
    """decode: poison, publish, wait, then prove what arrived."""
    memory.fill(bytes([_POISON]) * spec["bytes"])
    say(
        {
            "rank": rank,
            "metadata": base64.b64encode(agent.get_agent_metadata()).decode(),
            "address": memory.address,
            "device": memory.device,
        }
    )
    hear()  # the writer is done
    found = memory.read()
    wanted = pattern(spec["bytes"], spec["seed"] + rank)
    pieces = range(0, spec["bytes"], _CHUNK)
    wrong = 0 if found == wanted else sum(found[at : at + _CHUNK] != wanted[at : at + _CHUNK] for at in pieces)
    say({"rank": rank, "pieces": len(pieces), "wrong": wrong})


def send(agent: Any, memory: Any, spec: dict[str, Any], rank: int) -> None:
    """prefill: write the pattern, some rounds for the clock."""
    memory.fill(pattern(spec["bytes"], spec["seed"] + rank))
    peer = hear()
    name = agent.add_remote_agent(base64.b64decode(peer["metadata"]))
    size = spec["bytes"]
    remote = [(peer["address"] + at, min(_CHUNK, size - at), peer["device"]) for at in range(0, size, _CHUNK)]
    source, target = descriptors(agent, memory, memory.address, size), agent.get_xfer_descs(remote, memory.kind)
    name = name.decode() if isinstance(name, bytes) else name
    seconds = []
    for number in range(spec["rounds"] + 1):  # the first one connects and maps; it is not timed
        start = time.perf_counter()
        handle = agent.initialize_xfer("WRITE", source, target, name, b"round")
        state = agent.transfer(handle)
        while state == "PROC":
            state = agent.check_xfer_state(handle)
        if state != "DONE":
            raise RuntimeError(f"NIXL transfer ended in state {state}")
        agent.release_xfer_handle(handle)
        if number:
            seconds.append(time.perf_counter() - start)
    say({"rank": rank, "seconds": seconds})


def main(role: str, spec: dict[str, Any]) -> None:
    """One rank pair after the other."""
    make = Cuda if spec["device"] == "cuda" else Host
    for rank, device in enumerate(spec["ranks"]):
        memory = make(spec["bytes"], device)
        agent = make_agent(role, rank)
        registered = agent.register_memory([(memory.address, spec["bytes"], memory.device, "")], memory.kind)
        (send if role == "prefill" else receive)(agent, memory, spec, rank)
        hear()  # both ends are done with this pair
        agent.deregister_memory(registered)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
