"""Parts `variants` and `variants-pair`: other formats of the tiny checkpoint, alone and in the appliance.

Experts in NVFP4, DSpark's block, an MTP layer: what starts answers as the plain model does, for the weights are the
same and a draft proposes only; what does not start ends with the engine's own words, which are recorded. Random drafts
are accepted rarely: no figure here says what speculative decoding gains.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from gpu import client, machine
from gpu.model import variants
from gpu.parts import answers, pair
from gpu.parts.kernels import START_S
from gpu.parts.variant_lineup import FOLDERS, PAIRED, PLAIN_MODEL, VARIANTS, Variant, accepted, raised
from gpu.record import Part
from gpu.servers import MODEL

WRITERS: dict[str, Callable[[Path, Path], None]] = {
    "nvfp4": variants.nvfp4,
    "dspark": variants.dspark,
    "eagle": variants.eagle,
}


def main() -> int:
    """All servers at once on one card, as in `serve`."""
    with Part("variants") as part:
        before = machine.memory_used()
        written(part)
        capability = float(machine.facts()["cards"][0]["capability"])
        servers = [PLAIN_MODEL, *(one.server for one in VARIANTS)]
        try:
            for server in servers:
                server.start()
            seconds = PLAIN_MODEL.ready(START_S)
            if part.expect(seconds is not None, "the plain model is ready", after_s=seconds):
                answers.single(part, PLAIN_MODEL.url)
            for one in VARIANTS:
                judged(part, one, capability)
        finally:
            for server in servers:
                server.stop(6)
        client.wait_until(lambda: pair.clean(before, 64), 15, 0.2)
    return 0 if not part.failures else 1


def written(part: Part) -> None:
    for name, write in WRITERS.items():
        begun = time.monotonic()
        write(MODEL, FOLDERS[name])
        part.line("model", variant=name, bytes=variants.size_on_disk(FOLDERS[name]),
                  seconds=round(time.monotonic() - begun, 1))  # fmt: skip
    variants.nvfp4(FOLDERS["dspark"], FOLDERS["nvfp4-dspark"])


def judged(part: Part, one: Variant, capability: float) -> None:
    """Ready and answering, or refused as expected; the words of a refusal stand in the record either way."""
    server = one.server
    seconds = server.ready(START_S)
    if seconds is not None and one.starts(capability):
        part.expect(True, f"{server.name} is ready", after_s=seconds)
        answers.compared(part, server.url, f"{server.name} answers as the plain model does")
        drafted(part, one)
        return
    log = server.log.read_text(errors="replace")
    part.line("refusal", variant=server.name, capability=capability, raised=raised(log)[-4:])
    if one.starts(capability):
        part.expect(False, f"{server.name} is ready")
        part.line("log", server=server.name, lines=server.tail(30))
        return
    part.expect(seconds is None and one.says in log, f"{server.name} is refused here, as is known", says=one.says)


def drafted(part: Part, one: Variant) -> None:
    """A step adds one token at least, and the engine counts it: the draft runs, whatever of it is accepted."""
    if one.server.flags.get("speculative-algorithm"):
        length = accepted(str(client.call(f"{one.server.url}/metrics", timeout=10)[1]))
        part.expect(length is not None and length >= 1, f"{one.server.name} drafts", tokens_a_step=length)


def paired() -> int:
    """One appliance after the other."""
    with Part("variants-pair") as part:
        for name, settings in PAIRED.items():
            in_the_pair(part, name, settings)
    return 0 if not part.failures else 1


def in_the_pair(part: Part, name: str, settings: dict[str, str]) -> None:
    before = machine.memory_used()
    process = pair.start(own={"DSV4_MODEL": str(FOLDERS[name]), **settings})
    try:
        seconds = client.wait_until(lambda: pair.ready() or process.poll() is not None, pair.START_S)
        up = seconds is not None and process.poll() is None
        if part.expect(up, f"{name}: READY", after_s=seconds):
            answers.compared(part, pair.API, f"{name}: the pair answers as the plain model does")
        else:
            logs = {
                path.stem: raised(path.read_text(errors="replace"))[-4:] for path in (pair.RUN / "log").glob("*.log")
            }
            part.line("refusal", variant=name, raised=logs)
    finally:
        pair.end(part, process, before)
