"""Parts `serve`, `kernels` and `stop`: the engine's own kernels, ours and two wrong ones against each other and the oracle."""

from __future__ import annotations

import json
import subprocess

import numpy

from gpu import compare, forced
from gpu.cases import CASES, Case
from gpu.parts.model import CORPUS
from gpu.record import Part
from gpu.servers import MODEL, PYTHON, WORK, Server
from gpu.verdict import Difference, verdict

STOCK = Server("stock", 31000)
OURS = Server("ours", 31100, "ours")
WRONG = (Server("scale", 31200, "ours", "scale"), Server("page", 31300, "ours", "page"))
SERVERS = (STOCK, OURS, *WRONG)
ORACLE = WORK / "oracle"
START_S = 420.0


def serve() -> int:
    """All servers and the oracle at once on one card: none of them is measured for speed."""
    with Part("serve") as part:
        for server in SERVERS:
            server.start()
        with (WORK / "oracle.log").open("w") as out:
            command = [PYTHON, "-m", "gpu.model.oracle", MODEL, CORPUS, ORACLE]
            judge = subprocess.Popen([str(word) for word in command], stdout=out, stderr=out)
        for server in SERVERS:
            seconds = server.ready(START_S)
            part.expect(seconds is not None, f"{server.name} is ready", after_s=seconds)
            if seconds is None:
                part.line("log", server=server.name, lines=server.tail(25))
        status = judge.wait(START_S)
        lines = (WORK / "oracle.log").read_text().splitlines()
        part.expect(status == 0, "the oracle has read every case", lines=[json.loads(x) for x in lines if x[:1] == "{"])
        if status:
            part.line("log", server="oracle", lines=lines[-20:])
    return 0 if not part.failures else 1


def stop() -> int:
    for server in SERVERS:
        server.stop()
    return 0


def kernels() -> int:
    with Part("kernels") as part:
        for case in CASES:
            measured(part, case)
        for server in SERVERS:
            part.line("plugin", server=server.name, **plugin(server))
    return 0 if not part.failures else 1


def measured(part: Part, case: Case) -> None:
    corpus = CORPUS
    runs = {name: distributions(part, server, case, name) for name, server in runs_of().items()}
    wanted = [tokens for _, tokens in case.prompts(corpus)]
    oracle = [numpy.load(path) for path in sorted((ORACLE / case.name.replace(" ", "")).glob("*.npy"))]
    stock, again = runs["stock"], runs["again"]
    if stock is None or again is None or not oracle:
        part.expect(False, f"{case.name}: the engine's own kernels and the oracle answer")
        return
    noise, far = pair(stock, again, wanted), pair(oracle, stock, wanted)
    part.line("noise", case=case.name, **noise.figures())
    part.line("stock-oracle", case=case.name, **far.figures())
    for name in ("ours", "scale", "page"):
        if (found := runs[name]) is None:
            part.expect(False, f"{case.name}: {name} answers")
            continue
        near, own = pair(stock, found, wanted), pair(oracle, found, wanted)
        part.line(f"{name}-stock", case=case.name, **near.figures())
        part.line(f"{name}-oracle", case=case.name, **own.figures())
        why = verdict(noise, far, near, own)
        good = bool(why) != (name == "ours")
        what = "ours passes" if name == "ours" else f"the wrong kernel `{name}` is refused"
        part.expect(good, f"{case.name}: {what}", why=why)


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
