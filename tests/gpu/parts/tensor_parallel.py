"""Part `tensor-parallel`: one server over two cards, with NCCL and with the PCIe-IPC all-reduce.

Equal distributions for forced tokens are demanded of both, against one server on one card. A start that is not READY in
time says which compilers still run, because a module built without a log line looks like a hang.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy

from gpu import forced, machine
from gpu.cases import Case
from gpu.compare import difference
from gpu.parts.lineup import ALONE, IPC, NCCL
from gpu.parts.model import CORPUS
from gpu.record import Part
from gpu.servers import WORK, Server
from gpu.verdict import DLOGPROB_FLOOR, NOISE_TIMES

CASES = (Case("1 x 300", 1, 300, 48, 0), Case("40 x 1500", 40, 1500, 32, 0))
START_S = 420.0


def main() -> int:
    with Part("tensor-parallel") as part:
        if len(machine.facts()["cards"]) < 2:
            part.line("not-run", what="two cards", why="this machine has fewer")
            return 0
        one, split = ALONE, (NCCL, IPC)
        for server in (one, *split):  # at once: none of them is measured for speed
            server.start()
        kept = (
            {case.name: [answers(part, one, case, f"tp1-{n}") for n in range(2)] for case in CASES}
            if up(part, one)
            else {}
        )
        one.stop()
        for server in split:
            if up(part, server):
                for case in CASES:
                    equal(part, server, case, kept.get(case.name, []))
            server.stop()
    return 0 if not part.failures else 1


def up(part: Part, server: Server) -> bool:
    seconds = server.ready(START_S)
    good = part.expect(seconds is not None, f"{server.name} is ready", after_s=seconds)
    if not good:
        part.line("log", server=server.name, compilers=compilers(), lines=server.tail(25))
    return good


def compilers() -> list[str]:
    """Command lines of compilers that run now."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if os.path.basename(words.split(" ", 1)[0]) in ("nvcc", "cicc", "ptxas", "ninja", "cc1plus"):  # noqa: PTH119
            found.append(words[:300])
    return found


def answers(part: Part, server: Server, case: Case, run: str) -> numpy.ndarray:
    rows = forced.distributions(server, case, CORPUS, WORK / "forced" / run / case.name.replace(" ", ""))
    part.line("run", server=server.name, case=case.name)
    return numpy.concatenate(rows)


def equal(part: Part, server: Server, case: Case, one: list[numpy.ndarray]) -> None:
    """Two cards may differ from one by what one differs by from itself, some times over: sums have another order."""
    if len(one) != 2:
        return
    tokens = numpy.concatenate([numpy.array(forced_) for _, forced_ in case.prompts(CORPUS)])
    noise = difference(one[0], one[1], tokens)
    found = difference(one[0], answers(part, server, case, server.name), tokens)
    allowed = NOISE_TIMES * noise.dlogprob_mean + 10 * DLOGPROB_FLOOR
    part.line("noise", case=case.name, **noise.figures())
    part.expect(found.dlogprob_mean <= allowed, f"{server.name}, {case.name}: equal to one card", **found.figures())
