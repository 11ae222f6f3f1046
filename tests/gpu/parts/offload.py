"""Part `offload`: KV of prompts that return from host memory (the engine's HiCache), as DSV4_KV_OFFLOAD_GB sets it.

Two servers side by side, whose prompts together need more KV than a card's pool holds: one keeps them on the host, the
other reads them again. Asked: do returning prompts come from the host, are the distributions those of a prompt that was
read, how long does each take. Then the pair with the setting itself. The model has six layers, so times are no claim.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy

from gpu import client, forced, machine
from gpu.cases import Case
from gpu.compare import difference
from gpu.parts import pair
from gpu.parts.kept import CONTEXT, COUNT, KEPT, PLAIN, counted
from gpu.parts.kernels import START_S
from gpu.parts.model import CORPUS
from gpu.record import Part
from gpu.servers import WORK, Server
from gpu.verdict import DLOGPROB_FLOOR, NOISE_TIMES

CASE = Case(f"{COUNT} x {CONTEXT}", COUNT, CONTEXT, 12, 0)
RETURNS = 0.8  # of a prompt's tokens must come from the cache; whole pages alone can
OFFLOAD_GB = "2"
_ALLOCATED = re.compile(r"Allocating ([\d.]+) GB host memory for V4")


def main() -> int:
    with Part("offload") as part:
        before = machine.memory_used()
        for server in (PLAIN, KEPT):
            server.start()
        up = [started(part, server) for server in (PLAIN, KEPT)]
        if all(up):
            compared(part)
        for server in (PLAIN, KEPT):
            server.stop(6)
        client.wait_until(lambda: pair.clean(before, 64), 15, 0.2)
        in_the_pair(part, before)
    return 0 if not part.failures else 1


def started(part: Part, server: Server) -> bool:
    seconds = server.ready(START_S)
    text = server.log.read_text(errors="replace")
    sizes = [float(size) for size in _ALLOCATED.findall(text)]
    attached = [line[-300:] for line in text.splitlines() if "hicache_attached=" in line]
    good = part.expect(seconds is not None, f"{server.name} is ready", after_s=seconds)
    part.line("host-pools", server=server.name, pools=len(sizes), gigabytes=round(sum(sizes), 3), lines=attached)
    if not good:
        part.line("log", server=server.name, lines=server.tail(30))
    return good


def compared(part: Part) -> None:
    """Each prompt once, then again in the same order: a pool that evicts the oldest then has none of them left."""
    first = {server.name: asked(part, server, "first") for server in (PLAIN, KEPT)}
    time.sleep(2.0)  # what was written through is on the host
    again = {server.name: asked(part, server, "again") for server in (PLAIN, KEPT)}
    third = asked(part, PLAIN, "noise")
    tokens = numpy.concatenate([numpy.array(wanted) for _, wanted in CASE.prompts(CORPUS)])
    noise = difference(again["plain"], third, tokens)
    found = difference(again["plain"], again["kept"], tokens)
    part.line("noise", case=CASE.name, **noise.figures())
    allowed = NOISE_TIMES * noise.dlogprob_mean + 10 * DLOGPROB_FLOOR
    part.expect(found.dlogprob_mean <= allowed, "from the host as if read again", allowed=allowed, **found.figures())
    own = difference(first["kept"], again["kept"], tokens)
    part.expect(own.dlogprob_mean <= allowed, "the second time as the first", allowed=allowed, **own.figures())
    host = from_host(KEPT.url)
    part.expect(host > 0, "the engine counts tokens from the host", tokens=host)
    part.expect(from_host(PLAIN.url) == 0, "without the flag it counts none")


def asked(part: Part, server: Server, run: str) -> numpy.ndarray:
    """Every request of the case, one after the other, with forced tokens: [tokens, vocabulary]; times are recorded."""
    folder = WORK / "offload" / f"{server.name}-{run}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    rows, seconds, shares = [], [], []
    for number, (prompt, wanted) in enumerate(CASE.prompts(CORPUS)):
        file = folder / f"{number:03d}.npy"
        begun = time.monotonic()
        answer = client.post(f"{server.url}/generate", request(prompt, wanted, file))
        seconds.append(time.monotonic() - begun)
        shares.append(answer["meta_info"]["cached_tokens"] / len(prompt))
        rows.append(numpy.load(file))
    part.line("run", server=server.name, run=run, mean_s=round(sum(seconds) / len(seconds), 3),
              cached_share=round(sum(shares) / len(shares), 3), least_share=round(min(shares), 3))  # fmt: skip
    if (server.name, run) == ("kept", "again"):
        part.expect(min(shares) >= RETURNS, "every returning prompt is in the cache", shares=shares)
    if (server.name, run) == ("plain", "again"):
        part.expect(max(shares) < RETURNS, "without the host they are gone: the comparison means something")
    return numpy.concatenate(rows)


def request(prompt: list[int], wanted: list[int], file: Path) -> dict[str, Any]:
    sampling = {
        "temperature": 0,
        "max_new_tokens": len(wanted),
        "ignore_eos": True,
        "custom_params": {"tokens": wanted, "file": str(file)},
    }
    return {"input_ids": prompt, "sampling_params": sampling, "custom_logit_processor": forced.processor()}


def from_host(url: str) -> float:
    """The engine's own counter of prompt tokens whose KV came from host memory."""
    text = str(client.call(f"{url}/metrics", timeout=10)[1])
    return counted(text)


def in_the_pair(part: Part, before: list[int]) -> None:
    """The appliance with the setting: READY, prefill alone keeps KV, answers to prompts that return."""
    process = pair.start(own={"DSV4_KV_OFFLOAD_GB": OFFLOAD_GB})
    try:
        seconds = client.wait_until(lambda: pair.ready() or process.poll() is not None, pair.START_S)
        up = seconds is not None and process.poll() is None
        if part.expect(up, f"READY with DSV4_KV_OFFLOAD_GB={OFFLOAD_GB}", after_s=seconds):
            returning(part, process)
    finally:
        pair.end(part, process, before)


def returning(part: Part, process: subprocess.Popen[bytes]) -> None:
    logs = {role: (pair.RUN / "log" / f"{role}.log").read_text(errors="replace") for role in ("prefill", "decode")}
    sizes = {role: round(sum(map(float, _ALLOCATED.findall(text))), 3) for role, text in logs.items()}
    part.expect(sizes["prefill"] > 0 and not sizes["decode"], "prefill alone keeps KV on the host", gigabytes=sizes)
    prompts = [prompt[:8000] for prompt, _ in Case("48 x 8000", 48, 8000, 1, 0).prompts(CORPUS)]
    for run in ("first", "again"):
        begun = time.monotonic()
        statuses = [answered(prompt) for prompt in prompts]
        part.line("pair-run", run=run, seconds=round(time.monotonic() - begun, 1), statuses=sorted(set(statuses)))
        part.expect(set(statuses) == {200}, f"{run}: every request is answered")
    host = from_host("http://127.0.0.1:30000")
    part.expect(host > 0, "prefill of the pair took KV from the host", tokens=host)
    part.expect(pair.ready() and process.poll() is None, "still READY")


def answered(prompt: list[int]) -> int:
    sampling = {"temperature": 0, "max_new_tokens": 4, "ignore_eos": True}
    return client.call(f"{pair.API}/generate", {"input_ids": prompt, "sampling_params": sampling}, 120)[0]
