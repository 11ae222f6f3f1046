"""What the servers compile, as the guard sees it: counted by name, given a digest, forbidden where that is asked."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from pathlib import Path

from dsv4_pd.plan.guard.config import GuardConfig
from dsv4_pd.run.cache import runtime
from dsv4_pd.run.cache.check import check, said
from dsv4_pd.run.guard.watch import tree
from dsv4_pd.run.guard.watch.compile_log import CompileLog
from dsv4_pd.run.guard.watch.record import Watch

log = logging.getLogger("guard")


class Compiles:
    """One sense of the guard's."""

    def __init__(self, config: GuardConfig, servers: Mapping[str, Watch]) -> None:
        self._config, self._servers = config, servers
        self.log = CompileLog(Path(config.record_dir))

    def look(self) -> str:
        """Read what is new; what a strict appliance ends with, or nothing."""
        names = {watch.pid: name for name, watch in self._servers.items() if watch.pid}
        clock = time.time() - time.monotonic()
        ready = {name: clock + at for name, watch in self._servers.items() if (at := _serves_since(watch)) is not None}
        fresh = self.log.read(lambda pid: names.get(tree.group_of(pid) or 0, "?"), ready)
        why = self.log.offence(fresh) if self._config.cache_strict else ""
        return f"DSV4_CACHE_STRICT: {why}" if why else ""

    async def repair(self) -> None:
        """Before a server that ended is started again: what damaged kernels it may have ended from are moved aside."""
        try:
            if self._config.cache_dir:
                report = await asyncio.to_thread(check, Path(self._config.cache_dir), time.time(), alone=False)
                for text in said(report):
                    log.warning("%s", text)
        except OSError as error:
            log.warning("kernel cache: not looked over: %s", error)

    async def seal(self) -> None:
        """Digests of what was compiled; on a full disk those are missing, and the next start judges by form."""
        if self._config.cache_dir:
            cache = Path(self._config.cache_dir)
            await asyncio.to_thread(runtime.seal_settled, cache, time.time(), self.log.seconds())


def _serves_since(watch: Watch) -> float | None:
    """Since when clients can reach it: what its warm-up compiles is not compiled in front of them."""
    return watch.warm_at if watch.needs_warm_up else watch.ready_at
