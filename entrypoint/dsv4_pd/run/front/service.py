"""What happens to a request, from its first byte to the last of its answer."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import aiohttp
import orjson
from aiohttp import web

from dsv4_pd.plan.front import client_keys as keys
from dsv4_pd.plan.front.config import FrontConfig
from dsv4_pd.run.front import body, cors, dialects, errors, ids, page, relay, routes
from dsv4_pd.run.front.admission import Admission
from dsv4_pd.run.front.dialects.base import Asked, Facts
from dsv4_pd.run.front.errors import Refusal
from dsv4_pd.run.front.exchange import Exchange
from dsv4_pd.run.front.keyring import Keyring
from dsv4_pd.run.front.limits import KeyLimits
from dsv4_pd.run.front.metrics import Metrics
from dsv4_pd.run.front.outlet import Outlet
from dsv4_pd.run.front.request_log import RequestLog
from dsv4_pd.run.front.routes import Kind, Route
from dsv4_pd.run.front.truth import Truth
from dsv4_pd.run.front.upstream import Upstream

log = logging.getLogger("dsv4_pd.run.front")
_DEFECT = Refusal(500, "The front failed on this request; its log has the reason beside the request's id")
ROOM = 128 << 20  # bytes of bodies at once; eight of the longest prompts where those are longer
WATCH_S = 1.0
CLIENT_LEFT = 499  # in our own accounts only, as nginx has it


class Service:
    """The handler of every request."""

    def __init__(self, config: FrontConfig, keyring: Keyring, upstream: Upstream) -> None:
        self.config, self.keyring, self.upstream = config, keyring, upstream
        self.truth = Truth(config.health_file)
        self.admission = Admission(config.max_concurrent, config.queue_size, config.queue_timeout)
        self.limits, self.metrics = KeyLimits(), Metrics()
        self._room = body.Room(max(ROOM, 8 * config.max_body))
        self.log = RequestLog(config.request_log)
        self.exchanges: set[Exchange] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._facts = Facts(config.model, config.router, config.max_output_tokens, int(time.time()))

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """One request; whatever goes wrong is an answer in the dialect of its route."""
        origin = cors.headers(request.headers.get("Origin"), self.config.cors_origins)
        exchange = Exchange(request, ids.of(request.headers.get(ids.HEADER)), origin)
        self.exchanges.add(exchange)
        try:
            return await self._answer(exchange)
        except Refusal as refusal:
            return await self._refused(exchange, refusal)
        except asyncio.CancelledError:
            exchange.status = exchange.status or CLIENT_LEFT
            exchange.ended = "client left" if exchange.ended == "whole" else exchange.ended
            raise
        except Exception:  # a defect of ours costs this request alone, and is said in the form of its API as well
            log.exception("request %s (%s) failed", exchange.id, exchange.route)
            if exchange.events:
                raise  # the answer has begun: its client sees it cut
            return await self._refused(exchange, _DEFECT)
        finally:
            self.exchanges.discard(exchange)
            if tokens := exchange.tokens():
                self.limits.spend(exchange.key, tokens)
            exchange.finish()
            if exchange.series is not None and exchange.key.name != keys.GUARD:
                self.log.write(exchange.entry())

    async def _answer(self, exchange: Exchange) -> web.StreamResponse:
        request = exchange.request
        if request.method == "OPTIONS" and (granted := cors.preflight(request.headers, self.config.cors_origins)):
            return web.Response(status=204, headers={**exchange.headers(), **granted})
        found = routes.find(request.method, request.path, self.config.router)
        exchange.dialect = found.dialect
        if isinstance(found, routes.Nowhere):
            exchange.series = self.metrics.of("none", keys.NOBODY, found.dialect.value)
            raise Refusal(found.status, found.message, code="unknown_url", allow=found.allow)
        exchange.route = found.path
        if not found.open:
            exchange.series = self.metrics.of(found.path, keys.NOBODY, found.dialect.value)
            exchange.key = self.keyring.find(keys.presented(request.headers))
            exchange.series = self.metrics.of(found.path, exchange.key.name, found.dialect.value)
        if found.kind in (Kind.GENERATE, Kind.SMALL):
            return await self._generate(exchange, found)
        return self._own(exchange, found)

    def _own(self, exchange: Exchange, route: Route) -> web.StreamResponse:
        """What the front answers by itself."""
        if route.kind is Kind.HEALTH:
            return _json(exchange, *self.truth.ready())
        if route.kind is Kind.LIVE:
            return _json(exchange, *self.truth.live())
        if route.kind is Kind.PAGE:
            if not self.config.page:
                raise Refusal(404, "The page is switched off", code="unknown_url")
            exchange.status = 200
            headers = {**exchange.headers(), **page.HEADERS}
            return web.Response(text=page.html(), content_type="text/html", headers=headers)
        self.truth.require()
        name = exchange.request.path.removeprefix(routes.MODELS).removeprefix("/")
        anthropic = "anthropic-version" in exchange.request.headers
        limits = [limit for limit in (self.config.context_length, self.truth.word.context_length) if limit]
        facts = replace(self._facts, context_length=min(limits, default=None))
        return _json(exchange, 200, dialects.models(facts, name, anthropic=anthropic))

    async def _generate(self, exchange: Exchange, route: Route) -> web.StreamResponse:
        if exchange.key.name != keys.GUARD:  # its test request is what makes the appliance READY
            self.truth.require()
        with self.limits.entered(exchange.key) as stay, self._room.guest() as guest:
            raw = await body.read(exchange.request, self.config.max_body, self.config.body_timeout, guest)
            exchange.bytes_in = len(raw)
            asked = dialects.prepare(route.path, body.parsed(raw), self._facts)
            stay.take(asked.slots)
            exchange.stream = asked.stream
            sent = body.written(asked.body) if asked.changed else raw
            async with (
                self._slots(exchange, route, asked),
                self._kept_alive(exchange) as outlet,
                self.upstream.post(exchange, route.path, sent) as answer,
            ):
                guest.leave()
                return await self._pass_on(exchange, asked, answer, outlet)

    @asynccontextmanager
    async def _slots(self, exchange: Exchange, route: Route, asked: Asked) -> AsyncIterator[None]:
        assert exchange.series is not None
        if route.kind is Kind.SMALL:
            yield
            return
        # The guard's request is a question whether answers come through; behind others it would say nothing.
        async with self.admission.slots(asked.slots, waits=exchange.key.name != keys.GUARD):
            exchange.waited = time.monotonic() - exchange.begun
            exchange.series.waited.add(exchange.waited)
            exchange.series.running += 1
            try:
                yield
            finally:
                exchange.series.running -= 1

    @asynccontextmanager
    async def _kept_alive(self, exchange: Exchange) -> AsyncIterator[Outlet]:
        """The client's stream, which `watch` keeps open for as long as the block runs, where one was asked for."""
        outlet = Outlet(exchange.request, exchange.headers())
        if exchange.stream:
            exchange.out, exchange.quiet = outlet, time.monotonic()
        try:
            yield outlet
        finally:
            exchange.quiet = None

    async def _pass_on(
        self, exchange: Exchange, asked: Asked, answer: aiohttp.ClientResponse, outlet: Outlet
    ) -> web.StreamResponse:
        exchange.status = answer.status
        if "event-stream" in answer.headers.get("Content-Type", "") or outlet.response is not None:
            return await relay.stream(exchange, asked, answer, outlet)
        exchange.quiet = None
        return await relay.whole(exchange, asked, answer)

    async def _refused(self, exchange: Exchange, refusal: Refusal) -> web.StreamResponse:
        exchange.status, exchange.ended = refusal.status, "refused"
        if exchange.out is not None and await exchange.out.begun():
            return await exchange.out.close(errors.event(exchange.dialect, refusal, exchange.id))
        headers = {**exchange.headers(), **errors.headers(refusal)}
        text = errors.body(exchange.dialect, refusal, exchange.id)
        answer = web.Response(body=text, status=refusal.status, headers=headers)
        if refusal.close:
            answer.force_close()
        return answer

    async def watch(self) -> None:
        """Once a second: end what a client holds up, who takes nothing of its answer for too long; and say to those who
        get nothing that somebody is there.
        """
        while True:
            await asyncio.sleep(WATCH_S)
            now = time.monotonic()
            for exchange in list(self.exchanges):
                if exchange.writing is not None:
                    self._end_stalled(exchange, exchange.writing, now)
                elif exchange.quiet is not None and exchange.out and now - exchange.quiet >= self.config.keep_alive:
                    exchange.quiet = now
                    self._started(exchange.out.keep())

    def _end_stalled(self, exchange: Exchange, since: float, now: float) -> None:
        if now - since > self.config.stall_timeout and exchange.request.transport:
            exchange.ended = "client stalled"
            with contextlib.suppress(AttributeError):
                exchange.request.transport.abort()

    def _started(self, work: Coroutine[Any, Any, None]) -> None:
        """A task of its own: a slow client must not hold up the watch."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _json(exchange: Exchange, status: int, content: Any) -> web.Response:
    exchange.status = status
    headers = {**exchange.headers(), "Content-Type": "application/json"}
    return web.Response(body=orjson.dumps(content), status=status, headers=headers)
