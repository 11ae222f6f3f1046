"""Runs SGLang's own load generator, in the engine's interpreter, and writes down each request with its moments.

`python driver.py PLAN`: PLAN is JSON {"requests", "loaded", "begun": FILES, "steps": [STEP]}, where a step is {"name",
"argv", "after", "trace"}; a trace is a file of JSON lines {"at_s", "input", "output"}, which no flag of the generator
can say. The generator's summary has no moments, and without them one cannot see what a long prompt did to the streams
beside it; so the functions that it sends requests with are wrapped, and each finished request becomes one line of
`requests`. Moments are CLOCK_MONOTONIC, which all processes of a host share. Several steps in one process, because
importing the generator takes seconds.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import json
import sys
import time
import types
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def main(plan_file: str) -> int:
    """Every step in turn."""
    plan = json.loads(Path(plan_file).read_text(encoding="utf-8"))
    serving = _generator()
    Path(plan["loaded"]).touch()
    with Path(plan["requests"]).open("a", encoding="utf-8", buffering=1) as out:
        for step in plan["steps"]:
            _wait(step.get("after"))
            originals = dict(serving.ASYNC_REQUEST_FUNCS)
            for name, send in originals.items():
                serving.ASYNC_REQUEST_FUNCS[name] = _recorded(send, step["name"], out, Path(plan["begun"]))
            sys.argv = ["serving", *step["argv"]]
            with _traced(serving, step.get("trace")):
                serving.cli_main()
            serving.ASYNC_REQUEST_FUNCS.update(originals)
            out.write(json.dumps({"step": step["name"], "end": time.perf_counter()}) + "\n")
    return 0


def _generator() -> Any:
    """The module; `datasets` is only needed for its image questions and is not in every engine environment."""
    if importlib.util.find_spec("datasets") is None:
        absent = types.ModuleType("datasets")
        absent.load_dataset = None  # type: ignore[attr-defined]
        sys.modules["datasets"] = absent
    # By name: this file runs in the engine's interpreter, and the control plane never imports the engine.
    return importlib.import_module("sglang.benchmark.serving")


def _wait(path: str | None) -> None:
    """Until another process says go."""
    while path and not Path(path).exists():
        time.sleep(0.02)


@contextmanager
def _traced(serving: Any, path: str | None) -> Iterator[None]:
    """The generator with the lengths and arrivals of a trace, made of its own random prompts."""
    if path is None:
        yield
        return
    rows = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
    make, ask = serving.get_dataset, serving.get_request

    def prompts(args: Any, tokenizer: Any, model_id: Any = None) -> list[Any]:
        found: list[Any] = []
        for row in rows:
            args.random_input_len, args.random_output_len, args.num_prompts = row["input"], row["output"], 1
            found += make(args, tokenizer, model_id)
        args.num_prompts = len(found)
        return found

    async def arrivals(requests: list[Any], *_: Any, **__: Any) -> AsyncIterator[Any]:
        begun = time.perf_counter()
        for row, request in zip(rows, requests, strict=True):
            await asyncio.sleep(max(0.0, row["at_s"] - (time.perf_counter() - begun)))
            yield request

    serving.get_dataset, serving.get_request = prompts, arrivals
    try:
        yield
    finally:
        serving.get_dataset, serving.get_request = make, ask


def _recorded(send: Callable[..., Any], step: str, out: Any, begun: Path) -> Callable[..., Any]:
    async def recorded(*args: Any, **kwargs: Any) -> Any:
        begun.touch()
        output = await send(*args, **kwargs)
        line = {
            "step": step,
            "start": output.start_time,
            "ttft": output.ttft or output.latency,  # 0 where the whole answer was a token without text
            "itls": output.itl,
            "latency": output.latency,
            "prompt_tokens": output.prompt_len,
            "output_tokens": output.output_len,
            "ok": output.success,
            "error": output.error[-300:],
        }
        out.write(json.dumps(line) + "\n")
        return output

    return recorded


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
