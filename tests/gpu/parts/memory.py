"""Part `memory`: what the engine itself says of its KV pools, on the card, by memory fraction and context length.

The lines are the engine's own. Servers run one after the other on an otherwise empty card and end as soon as they have
said how many tokens they hold.
"""

from __future__ import annotations

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
FREE: dict[str, str | None] = {"max-total-tokens": None, "load-format": "dummy"}
SAID = re.compile(r"SWA sizing|bytes_per|max_total_num_tokens|KV [Cc]ache|[Mm]emory pool|mem usage|avail mem|available_gpu_mem|pool size|state pool|swa_|"
                  r"Load weight|Memory profiling", re.IGNORECASE)  # fmt: skip
DONE = re.compile(r"max_total_num_tokens=(\d+)")
FIELDS: Mapping[str, str] = {
    "swa_tokens": r"swa_tokens=(\d+)",
    "swa_ratio": r"swa_full_tokens_ratio=([\d.]+)",
    "bytes_per_full_token": r"bytes_per_full_token=([\d.]+)",
    "available_bytes": r"available_bytes=([\d.]+)",
    "full_tokens": r"full_token=(\d+)",
    "max_total_num_tokens": r"max_total_num_tokens=(\d+)",
    "context_len": r"context_len=(\d+)",
    "available_gpu_mem_gb": r"available_gpu_mem=([\d.]+)",
    "chunked_prefill_size": r"chunked_prefill_size=(\d+)",
    "max_running_requests": r"max_running_requests=(\d+)",
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
    server = Server(f"memory{number}", 32000 + 10 * number, flags={**FREE, **flags})
    server.start()
    # After the tokens the graphs are captured, which nothing here asks for.
    seconds = client.wait_until(lambda: bool(DONE.search(text(server))) or not server.alive(), WAIT_S, 0.1)
    lines = said(text(server))
    server.stop(4)
    client.wait_until(lambda: not any(used > 1500 for used in machine.memory_used()), 15, 0.2)
    found = fields("\n".join(lines))
    good = part.expect("max_total_num_tokens" in found, f"{flags} is sized", after_s=seconds)
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

    >>> fields("max_total_num_tokens=1024, context_len=16384")["max_total_num_tokens"]
    1024.0
    """
    found = {name: re.findall(pattern, log) for name, pattern in FIELDS.items()}
    return {name: float(values[-1]) for name, values in found.items() if values}
