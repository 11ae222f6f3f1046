"""Part `memory`: what the engine itself says of its KV pools, on the card, by memory fraction and context length.

The lines are the engine's own. Servers run one after the other on an otherwise empty card and end as soon as they have
said how many tokens they hold.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from itertools import product

from gpu import client, machine
from gpu.record import Part
from gpu.servers import Server

FRACTIONS = ("0.5", "0.7", "0.85")
CONTEXTS = ("16384", "40960")
RATIOS = ("0.02", "0.05")  # of the window pool to the full one; the engine's own is 0.1
WAIT_S = 90.0
CARD = os.environ.get("RING_CARD", "0")  # another part may use the other cards
FREE: dict[str, str | None] = {"max-total-tokens": None, "load-format": "dummy"}
SAID = re.compile(
    r"DSV4 (SWA|memory|pool)|Initialize DeepSeekV4|Memory (pool|baseline)|Load weight|KV cache dtype|"
    r"swa_full_tokens_ratio"
)
# Pools are made before kernels are compiled and graphs captured, which nothing here asks for.
DONE = re.compile(r"Memory pool end")
FIELDS: Mapping[str, str] = {
    "available_gb": r"available_bytes=([\d.]+) GB",
    "avail_mem_before_load_gb": r"Load weight begin\. avail mem=([\d.]+)",
    "avail_mem_after_load_gb": r"Load weight end\..* avail mem=([\d.]+)",
    "avail_mem_after_pools_gb": r"Memory pool end\. avail mem=([\d.]+)",
    "bytes_per_full_token": r"bytes_per_full_token=([\d.]+)",
    "c128_state_fixed_gb": r"c128_state_fixed=([\d.]+) GB",
    "c128_tokens": r"pool sizes: .*c128=(\d+)",
    "c4_state_tokens": r"pool sizes: .*c4_state=(\d+)",
    "c4_tokens": r"pool sizes: .*c4=(\d+)",
    "full_tokens": r"pool sizes: full=(\d+)",
    "max_num_reqs": r"max_num_reqs=(\d+)",
    "swa_ratio": r"swa_full_tokens_ratio=([\d.]+)",
    "swa_tokens": r"swa_tokens=(\d+)",
}


def main() -> int:
    with Part("memory") as part:
        part.line("before", memory_used_mib=machine.memory_used())
        for number, (fraction, context) in enumerate(product(FRACTIONS, CONTEXTS)):
            sized(part, number, {"mem-fraction-static": fraction, "context-length": context})
        for number, ratio in enumerate(RATIOS, 6):
            flags = {"mem-fraction-static": "0.7", "context-length": "40960", "swa-full-tokens-ratio": ratio}
            sized(part, number, flags)
    return 0 if not part.failures else 1


def sized(part: Part, number: int, flags: Mapping[str, str]) -> None:
    server = Server(f"memory{number}", 32000 + 10 * number, cards=CARD, flags={**FREE, **flags})
    server.start()
    seconds = client.wait_until(lambda: bool(DONE.search(text(server))) or not server.alive(), WAIT_S, 0.1)
    lines = said(text(server))
    server.stop(4)
    client.wait_until(lambda: machine.memory_used()[int(CARD)] < 1500, 15, 0.2)
    found = fields("\n".join(lines))
    good = part.expect("full_tokens" in found, f"{flags} is sized", after_s=seconds)
    part.line("memory", flags=dict(flags), found=found, lines=lines if good else server.tail(30))


def text(server: Server) -> str:
    return server.log.read_text(errors="replace") if server.log.exists() else ""


def said(log: str) -> list[str]:
    """The engine's lines about memory, without their time stamps.

    >>> said("[2026-11-30 08:00:00] DSV4 SWA sizing: mode=ratio, swa_tokens=256\\n[...] something else")
    ['DSV4 SWA sizing: mode=ratio, swa_tokens=256']
    """
    lines = [re.sub(r"^\[[^\]]*\]\s*", "", line) for line in log.splitlines()]
    return [line[:700] for line in lines if SAID.search(line) and not line.startswith("server_args=")]


def fields(log: str) -> dict[str, float]:
    """Numbers of the lines by name; the last one of each name.

    >>> fields("DSV4 pool sizes: full=87624704, swa=8762368, c4=21906176")["full_tokens"]
    87624704.0
    """
    found = {name: re.findall(pattern, log) for name, pattern in FIELDS.items()}
    return {name: float(values[-1]) for name, values in found.items() if values}
