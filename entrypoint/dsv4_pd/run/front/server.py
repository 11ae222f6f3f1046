"""The front as a process: its sockets, its tasks, its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import signal
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import uvloop
from aiohttp import web

from dsv4_pd.host.listening import open_socket
from dsv4_pd.host.loopback import LOOPBACK
from dsv4_pd.plan.front.config import FrontConfig
from dsv4_pd.run.front.connections import Connections
from dsv4_pd.run.front.keyring import Keyring
from dsv4_pd.run.front.service import Service
from dsv4_pd.run.front.tls import Certificate
from dsv4_pd.run.front.upstream import Upstream
from dsv4_pd.run.ops.exposition import CONTENT_TYPE

log = logging.getLogger("dsv4_pd.run.front")
BACKLOG = 4096
SPARE = 256  # descriptors that no client may take: files, the router's metrics, a look at the log


def run(config: FrontConfig) -> None:
    """Serve until SIGTERM or SIGINT. Raises KeysError, OSError."""
    uvloop.run(_serve(config))


async def _serve(config: FrontConfig) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await Front(config).serve(stop)


class Front:
    """Everything of one front."""

    def __init__(self, config: FrontConfig) -> None:
        self.config = config
        self.keyring = Keyring(config)
        key = Path(config.upstream_key_file).read_text(encoding="utf-8").strip() if config.upstream_key_file else None
        self.upstream = Upstream(config.upstream, key, config.request_timeout)
        self.service = Service(config, self.keyring, self.upstream)
        self.certificate = Certificate(config.tls_cert, config.tls_key) if config.tls_cert and config.tls_key else None
        self.listening = False
        self.connections = Connections(min(config.max_connections, (descriptors() - SPARE) // 2))

    async def serve(self, stop: asyncio.Event) -> None:
        """Until told to stop; then what runs may end."""
        self.upstream.open()
        server = web.Server(
            self.connections.counted(self.service.handle),
            handler_cancellation=True,  # a client that leaves ends its request, in the queue and at the servers
            keepalive_timeout=75.0,
            auto_decompress=False,  # a bomb would hold everybody up; body.py refuses what is packed
            access_log=None,
        )
        listening = await self._listen(server)
        metrics = await self._metrics()
        tasks = [asyncio.create_task(self._kept(watch)) for watch in self._watches()]
        self.listening = True
        log.info("the front serves on %s:%d before %s", self.config.host, self.config.port, self.config.upstream)
        try:
            await stop.wait()
            self.service.truth.stop()  # who comes now is told so, which a closed port can't
            await self._drain()
        finally:
            listening.close()
            self.listening = False
            for task in tasks:
                task.cancel()
            await server.shutdown(1.0)
            if metrics is not None:
                await metrics.cleanup()
            await self.upstream.close()

    async def _listen(self, server: web.Server) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        context = self.certificate.context if self.certificate else None
        opened = open_socket(self.config.host.strip("[]") or "0.0.0.0", self.config.port, BACKLOG)
        return await loop.create_server(self.connections.guarded(server), sock=opened, ssl=context, backlog=BACKLOG)

    def _watches(self) -> list[Any]:
        watches = [self.connections.watch, self.service.watch, self.keyring.watch]
        return [*watches, self.certificate.watch] if self.certificate else watches

    async def _kept(self, watch: Any) -> None:
        """A watch that fails is begun again: one odd file must not end the others' work."""
        while True:
            try:
                await _awaited(watch())
            except Exception:
                log.exception("%s failed and is begun again", watch)
                await asyncio.sleep(1.0)

    async def _drain(self) -> None:
        """Wait for what runs, as long as supervisord lets us."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.config.drain_timeout):
                while self.service.exchanges:
                    await asyncio.sleep(0.05)

    async def _metrics(self) -> web.ServerRunner | None:
        """What is measured, on loopback only: it names keys."""
        if not self.config.metrics_port:
            return None

        async def answer(_: web.BaseRequest) -> web.Response:
            text = self.service.metrics.text(self._now())
            return web.Response(body=text.encode(), headers={"Content-Type": CONTENT_TYPE})

        runner = web.ServerRunner(web.Server(answer, access_log=None))
        await runner.setup()
        await web.TCPSite(runner, LOOPBACK, self.config.metrics_port).start()
        return runner

    def _now(self) -> dict[str, float]:
        admission = self.service.admission
        return {
            "dsv4_front_slots": admission.limit,
            "dsv4_front_slots_used": admission.used,
            "dsv4_front_queue": len(admission.waiting),
            "dsv4_front_connections": len(self.connections.known),
            "dsv4_front_connections_refused_total": self.connections.refused,
            "dsv4_front_keys": self.keyring.named,
            "dsv4_front_keys_load_failed": float(self.keyring.failed is not None),
            "dsv4_front_certificate_load_failed": float(bool(self.certificate and self.certificate.failed)),
            "dsv4_front_request_log_lost_total": self.service.log.lost,
        }


async def _awaited(work: Coroutine[Any, Any, None]) -> None:
    await work


def descriptors() -> int:
    """How many this process may have, after it took as many as it can get."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, 65536)
    if soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
