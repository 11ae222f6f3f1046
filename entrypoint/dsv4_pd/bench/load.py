"""One load on the API, as data, and the kept generator that makes it: SGLang's `benchmark.serving`."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dsv4_pd.client.http import host_of
from dsv4_pd.errors import ApplianceError
from dsv4_pd.host.loopback import is_loopback

DRIVER = Path(__file__).with_name("driver.py")
REAL_PROMPTS = Path(__file__).with_name("prompts.jsonl")
_STEP_S = 6 * 3600.0


@dataclass(frozen=True, slots=True)
class Target:
    """The API, and what the generator needs to count tokens."""

    api_url: str
    model: str  # its name in the API
    tokenizer: str  # folder or Hugging Face name
    engine_python: Path
    key: str | None = None


@dataclass(frozen=True, slots=True)
class LoadStep:
    """How many requests, how many at once, of what size. `dataset`: random, a file of conversations, or `trace:FILE`
    with a request's lengths and arrival a line; `input_tokens` and `output_tokens` are then the smallest.
    """

    name: str
    concurrency: int
    requests: int
    input_tokens: int
    output_tokens: int
    rate: float | None = None  # requests a second; None: as fast as the concurrency allows
    dataset: str = "random"
    seed: int = 1

    def as_dict(self) -> dict[str, Any]:
        """For the result file."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Request:
    """One finished request; moments in CLOCK_MONOTONIC seconds."""

    step: str
    start: float
    ttft: float
    itls: tuple[float, ...]
    latency: float
    prompt_tokens: int
    output_tokens: int
    ok: bool
    error: str = ""

    @property
    def itl_mean(self) -> float:
        """Mean wait between two pieces of the answer, in seconds; 0 of an answer in one piece."""
        return sum(self.itls) / len(self.itls) if self.itls else 0.0

    @property
    def token_moments(self) -> list[float]:
        """When each piece of the answer arrived."""
        moments = [self.start + self.ttft]
        for gap in self.itls:
            moments.append(moments[-1] + gap)
        return moments


def arguments(load: LoadStep, target: Target) -> list[str]:
    """The generator's command line. Answers run to their full length, so that every run does the same work."""
    pace = ["--request-rate", str(load.rate)] if load.rate else []
    return [
        *(_random(load) if load.dataset == "random" or trace_of(load) else _conversations(load)), *pace,
        "--base-url", target.api_url, "--model", target.tokenizer, "--served-model-name", target.model,
        "--tokenizer", target.tokenizer, "--num-prompts", str(load.requests),
        "--max-concurrency", str(load.concurrency), "--seed", str(load.seed), "--warmup-requests", "0",
        "--disable-tqdm", "--ready-check-timeout-sec", "30",
        "--output-file", os.devnull,
    ]  # fmt: skip


def trace_of(load: LoadStep) -> str | None:
    """The file with lengths and arrivals, where the load has one.

    >>> trace_of(LoadStep("x", 1, 1, 8, 8, dataset="trace:/tmp/a.jsonl"))
    '/tmp/a.jsonl'
    """
    kind, _, path = load.dataset.partition(":")
    return path if kind == "trace" else None


def _random(load: LoadStep) -> list[str]:
    """Plain completions. No usage is asked for: the generator trips over the chunk without choices that carries it."""
    return ["--backend", "sglang-oai", "--dataset-name", "random-ids", "--random-input-len", str(load.input_tokens),
            "--random-output-len", str(load.output_tokens), "--random-range-ratio", "1.0"]  # fmt: skip


def _conversations(load: LoadStep) -> list[str]:
    path = str(REAL_PROMPTS) if load.dataset == "real" else load.dataset
    usage = json.dumps({"stream_options": {"include_usage": True}})
    return ["--backend", "sglang-oai-chat", "--dataset-name", "custom", "--dataset-path", path,
            "--sharegpt-output-len", str(load.output_tokens), "--extra-request-body", usage]  # fmt: skip


@contextmanager
def generator(
    loads: Sequence[LoadStep], target: Target, folder: Path, after: Path | None = None
) -> Iterator[Generator]:
    """The generator as a running process; ended when the block ends."""
    stem = folder / loads[0].name
    steps = [
        {"name": load.name, "argv": arguments(load, target), "after": str(after) if after else None,
         "trace": trace_of(load)}
        for load in loads
    ]  # fmt: skip
    files = {kind: str(stem.with_suffix(f".{kind}")) for kind in ("requests", "loaded", "begun")}
    stem.with_suffix(".plan").write_text(json.dumps({**files, "steps": steps}), encoding="utf-8")
    command = [str(target.engine_python), str(DRIVER), str(stem.with_suffix(".plan"))]
    with stem.with_suffix(".log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=_environ(target))
        try:
            yield Generator(process, stem)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()


def _environ(target: Target) -> dict[str, str]:
    key = {"OPENAI_API_KEY": target.key} if target.key else {}
    quiet = {"CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "SGLANG_PLUGINS": ""}
    return {**os.environ, **quiet, **_straight(target.api_url, os.environ), **key}


def _straight(url: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The generator honours proxies, but the API of this machine is no proxy's business."""
    if not is_loopback(host_of(url)):
        return {}
    listed = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    value = ",".join([*filter(None, listed.split(",")), host_of(url)])
    return {"NO_PROXY": value, "no_proxy": value}


class Generator:
    """Reads what the process writes."""

    def __init__(self, process: subprocess.Popen[bytes], stem: Path) -> None:
        self._process, self._stem, self._offset = process, stem, 0

    def reach(self, what: str) -> None:
        """Wait until the generator is `loaded`, or has `begun` to send.

        Raises:
            ApplianceError: it ended before.
        """
        while not self._stem.with_suffix(f".{what}").exists():
            if self._process.poll() is not None:
                raise ApplianceError(self._failure([]))
            time.sleep(0.02)

    def wait(self, on_request: Callable[[Request], None] = lambda request: None) -> list[Request]:
        """Every request of every load, told as they end.

        Raises:
            ApplianceError: the generator failed, or no request succeeded.
        """
        found: list[Request] = []
        begun = time.monotonic()
        while True:
            ended = self._process.poll() is not None
            for request in self.fresh():
                found.append(request)
                on_request(request)
            if ended or time.monotonic() - begun > _STEP_S:
                break
            time.sleep(0.1)
        if self._process.returncode or not any(request.ok for request in found):
            raise ApplianceError(self._failure(found))
        return found

    def fresh(self) -> list[Request]:
        """Requests that ended since the last look."""
        requests = self._stem.with_suffix(".requests")
        if not requests.exists():
            return []
        with requests.open("r", encoding="utf-8") as file:
            file.seek(self._offset)
            text = file.read()
        whole = text[: text.rfind("\n") + 1]
        self._offset += len(whole.encode())
        return [_request(data) for line in whole.splitlines() if "start" in (data := json.loads(line))]

    def _failure(self, found: Sequence[Request]) -> str:
        errors = sorted({request.error.strip().splitlines()[-1] for request in found if request.error.strip()})
        lines = self._stem.with_suffix(".log").read_text(encoding="utf-8", errors="replace").splitlines()[-8:]
        told = f"requests failed: {'; '.join(errors[:3])}" if errors else "\n".join(lines)
        return f"the load generator ended with {self._process.returncode}: {told}"


def _request(data: dict[str, Any]) -> Request:
    return Request(**{**data, "itls": tuple(data["itls"])})


def run(
    loads: Sequence[LoadStep],
    target: Target,
    on_request: Callable[[Request], None] = lambda request: None,
    on_load: Callable[[LoadStep, list[Request]], None] = lambda load, requests: None,
) -> dict[str, list[Request]]:
    """Each load's requests by its name. A load is told with its last request; one that had fewer requests than were
    wanted, once the next one begins.
    """
    begun: dict[str, list[Request]] = {}
    untold = {load.name: load for load in loads}

    def ended(name: str) -> None:
        if name in untold and begun.get(name):
            on_load(untold.pop(name), begun[name])

    def told(request: Request) -> None:
        for earlier in [name for name in begun if name != request.step]:
            ended(earlier)
        begun.setdefault(request.step, []).append(request)
        on_request(request)
        if request.step in untold and len(begun[request.step]) == untold[request.step].requests:
            ended(request.step)

    with tempfile.TemporaryDirectory(prefix="dsv4-bench-") as name, generator(loads, target, Path(name)) as process:
        process.wait(told)
    for load in loads:
        ended(load.name)
    return {load.name: begun.get(load.name, []) for load in loads}
