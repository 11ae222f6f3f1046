"""The process that fetches the model while no server runs: the ops port answers, the state is DOWNLOADING.

`serve` starts it, shows what it publishes, and reads how it ended from the outcome file.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dsv4_pd.errors import Problem, SettingsError
from dsv4_pd.run.download import order
from dsv4_pd.run.download.causes import Failed
from dsv4_pd.run.download.job import Job, Task
from dsv4_pd.run.download.patience import Stopped
from dsv4_pd.run.download.progress import Progress
from dsv4_pd.run.guard.tell import publish
from dsv4_pd.run.ops import own, server
from dsv4_pd.run.ops.exposition import render
from dsv4_pd.run.ops.live import live
from dsv4_pd.run.states import StateName

_BEAT_S = 1.0


@dataclass(frozen=True, slots=True)
class Config:
    """What the process has to know; no secret is in it."""

    model: str
    revision: str | None
    state_dir: str
    stall_s: float
    health_file: str
    outcome_file: str
    ops_host: str
    ops_port: int
    shown: dict[str, Any]  # what every document says: version, mode, profile, model, notices
    about: dict[str, Any]
    ahead: bool = False  # only what can be told before the weights come

    def to_json(self) -> str:
        """As the process reads it."""
        return json.dumps(asdict(self))


class Publisher:
    """health.json and the ops port, from the job's progress."""

    def __init__(self, config: Config, progress: Progress) -> None:
        self._config, self._progress = config, progress
        self._since = time.time()
        self._last = self.document()

    def document(self, state: StateName = StateName.DOWNLOADING, reason: str = "") -> dict[str, Any]:
        """The published document."""
        now = self._progress.snapshot()
        clock = time.time()
        return {
            "state": state.value, "reason": reason or now.words(), "serving": False, "since": round(self._since, 3),
            "heartbeat": round(clock, 3), "heartbeat_monotonic": round(time.monotonic(), 3), **self._config.shown,
            "roles": {}, "canary": {}, "link": None, "restarts": {}, "events": [], "download": now.document(),
        }  # fmt: skip

    def beat(self, state: StateName = StateName.DOWNLOADING, reason: str = "") -> None:
        """Publish."""
        self._last = self.document(state, reason)
        publish.write_json(Path(self._config.health_file), self._last)

    def last(self) -> dict[str, Any]:
        """What was published last."""
        return self._last

    async def metrics(self) -> str:
        """The text of /metrics."""
        return render(own.families(self._last, {}, {}))

    async def live(self) -> dict[str, Any]:
        """The body of /load: no load yet."""
        return live({}, time.time())


def outcome(job: Job, task: Task, ahead: bool = False) -> dict[str, Any]:
    """Run the job, or look ahead; how it ended, as plain values."""
    try:
        if ahead:
            return {"code": 0, "ahead": asdict(job.look())}
        return {"code": 0, "folder": str(job.run())}
    except Stopped:
        return {"code": 0, "stopped": True}
    except Failed as failed:
        return {"code": failed.cause.error.exit_code, "problems": [asdict(task.asked.problem(failed))]}
    except SettingsError as error:
        return {"code": error.exit_code, "problems": [asdict(problem) for problem in error.problems]}


def problems_of(data: dict[str, Any]) -> list[Problem]:
    """The problems of an outcome."""
    return [Problem(**item) for item in data.get("problems", ())]


async def _run(config: Config) -> None:
    task = order.task(config.model, config.revision, os.environ, Path(config.state_dir), config.stall_s)
    progress = Progress()
    job = order.job(task, os.environ, progress)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, job.stop)
    publisher = Publisher(config, progress)
    ops = server.application(publisher.last, publisher, config.about, config.ops_host)
    listening = asyncio.create_task(_listen(ops, config))
    work = asyncio.create_task(asyncio.to_thread(outcome, job, task, config.ahead))
    while not work.done():
        publisher.beat()
        await asyncio.wait({work}, timeout=_BEAT_S)
    listening.cancel()
    ended = work.result()
    if problems := problems_of(ended):
        publisher.beat(StateName.FAILED, str(problems[0]))
    publish.write_json(Path(config.outcome_file), ended)
    with contextlib.suppress(asyncio.CancelledError):
        await listening


async def _listen(ops: Any, config: Config) -> None:
    """A port that is taken after all costs the page, not the download."""
    with contextlib.suppress(OSError):
        await server.serve(ops, config.ops_host, config.ops_port)


def main(argv: list[str]) -> int:
    """Returns 0 when the outcome is written, whatever it is."""
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    config = Config(**json.loads(Path(argv[0]).read_text(encoding="utf-8")))
    asyncio.run(_run(config))
    return 0
