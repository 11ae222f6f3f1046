"""Parts `serve`, `answers`, `kernels`, `stop`: the engine's kernels, ours and two wrong ones, and the oracle."""

from __future__ import annotations

import json
import os
import subprocess

import numpy

from gpu import compare, forced, machine
from gpu.cases import CASES, Case
from gpu.parts import answers
from gpu.parts.lineup import OURS, SERVERS, STOCK, WRONG
from gpu.parts.model import CORPUS
from gpu.record import Part
from gpu.servers import MODEL, PYTHON, WORK, Server
from gpu.verdict import Difference, verdict

ORACLE = WORK / "oracle"
START_S = float(os.environ.get("RING_START_S", "420"))  # with cold caches two Marlin kernels alone take nine minutes


def serve() -> int:
    """All servers and the oracle at once on one card: none of them is measured for speed."""
    with Part("serve") as part:
        part.line("before", memory_used_mib=machine.memory_used())
        for server in SERVERS:
            server.start()
        judge = oracle() if os.environ.get("RING_ORACLE") != "none" else None
        for server in SERVERS:
            seconds = server.ready(START_S)
            if not part.expect(seconds is not None, f"{server.name} is ready", after_s=seconds):
                part.line("log", server=server.name, lines=server.tail(25))
        if judge:
            status = judge.wait(START_S)
            lines = (WORK / "oracle.log").read_text().splitlines()
            said = [json.loads(line) for line in lines if line.startswith("{")]
            if not part.expect(status == 0, "the oracle has read every case", lines=said):
                part.line("log", server="oracle", lines=lines[-20:])
    return 0 if not part.failures else 1


def single() -> int:
    """One server's greedy answers, kept for the pair. After `ready`, which counts first uses."""
    with Part("answers") as part:
        answers.single(part, OURS.url)
    return 0 if not part.failures else 1


def oracle() -> subprocess.Popen[bytes]:
    command = [PYTHON, "-m", "gpu.model.oracle", MODEL, CORPUS, ORACLE]
    with (WORK / "oracle.log").open("w") as out:
        return subprocess.Popen([str(word) for word in command], stdout=out, stderr=out)


def stop() -> int:
    """Every server that a part started, also one that was cut short."""
    for path in sorted(WORK.glob("*.pid")):
        Server(path.stem, 0).stop(6)
    return 0


def kernels() -> int:
    with Part("kernels") as part:
        refused = [name for case in CASES for name in measured(part, case)]
        for server in WRONG:  # not in each case: where little of the context counts, a wrong page changes little
            seen = refused.count(server.name)
            part.expect(seen > 0, f"the wrong kernel `{server.name}` is refused", cases=seen, of=len(CASES))
        for server in SERVERS:
            part.line("plugin", server=server.name, **plugin(server))
    return 0 if not part.failures else 1


def measured(part: Part, case: Case) -> list[str]:
    """The wrong kernels that this case refuses."""
    runs = {name: distributions(part, server, case, name) for name, server in runs_of().items()}
    wanted = [tokens for _, tokens in case.prompts(CORPUS)]
    oracle = [numpy.load(path) for path in sorted((ORACLE / case.name.replace(" ", "")).glob("*.npy"))]
    stock, again = runs["stock"], runs["again"]
    if stock is None or again is None:
        part.expect(False, f"{case.name}: the engine's own kernels answer")
        return []
    noise = pair(stock, again, wanted)
    part.line("noise", case=case.name, **noise.figures())
    far = pair(oracle, stock, wanted) if part.expect(bool(oracle), f"{case.name}: the oracle has read it") else None
    if far:
        part.line("stock-oracle", case=case.name, **far.figures())
    refused = []
    for name in ("ours", "scale", "page"):
        if (found := runs[name]) is None:
            part.expect(False, f"{case.name}: {name} answers")
            continue
        near = pair(stock, found, wanted)
        part.line(f"{name}-stock", case=case.name, **near.figures())
        if far:
            own = pair(oracle, found, wanted)
            part.line(f"{name}-oracle", case=case.name, **own.figures())
            why = verdict(noise, far, near, own)
            if name == "ours":
                part.expect(not why, f"{case.name}: ours passes", why=why)
            elif why:
                refused.append(name)
                part.line("refused", case=case.name, kernel=name, why=why)
    return refused


def runs_of() -> dict[str, Server]:
    return {"stock": STOCK, "again": STOCK, **{server.name: server for server in (OURS, *WRONG)}}


def distributions(part: Part, server: Server, case: Case, run: str) -> list[numpy.ndarray] | None:
    """None where the server does not answer: that is a finding, and the others are still compared."""
    try:
        return forced.distributions(server, case, CORPUS, WORK / "forced" / run / case.name.replace(" ", ""))
    except (OSError, RuntimeError) as error:
        part.line("log", server=server.name, run=run, case=case.name, error=str(error)[:500], lines=server.tail())
        return None


def pair(one: list[numpy.ndarray], other: list[numpy.ndarray], wanted: list[list[int]]) -> Difference:
    """All requests that both have, decode's rows alone: the first row of each is prefill's."""
    count = min(len(one), len(other))
    rows = [numpy.concatenate([values[1:] for values in side[:count]]) for side in (one, other)]
    tokens = numpy.concatenate([numpy.array(values[1:]) for values in wanted[:count]])
    return compare.difference(rows[0], rows[1], tokens)


def plugin(server: Server) -> dict[str, object]:
    """What our plugin says of its hooks in the scheduler: in use, and where the engine's own ran instead."""
    found = [json.loads(path.read_text()) for path in sorted(server.records.glob("dsv4-kernels.*.json"))]
    active = [item for item in found if "active" in item["patches"].values()]
    return {"patches": active[-1]["patches"], "fallbacks": active[-1]["fallbacks"]} if active else {"patches": {}}
