"""What happens to a request, from its first byte to the last of its answer."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import orjson
from aiohttp import web

from dsv4_pd.front import body, cors, dialects, errors, ids, keys, page, relay, routes
from dsv4_pd.front.admission import Admission
from dsv4_pd.front.dialects.base import Asked, Facts
from dsv4_pd.front.errors import Refusal
from dsv4_pd.front.exchange import Exchange
from dsv4_pd.front.keyring import Keyring
from dsv4_pd.front.limits import KeyLimits
from dsv4_pd.front.metrics import Metrics
from dsv4_pd.front.request_log import RequestLog
from dsv4_pd.front.routes import Kind, Route
from dsv4_pd.front.truth import Truth
from dsv4_pd.front.upstream import Upstream
from dsv4_pd.plan.front_config import FrontConfig

CLIENT_LEFT = 499  # in our own accounts only, as nginx has it


class Service:
    """The handler of every request."""

    def __init__(self, config: FrontConfig, keyring: Keyring, upstream: Upstream) -> None:
        self.config, self.keyring, self.upstream = config, keyring, upstream
        self.truth = Truth(config.health_file)
        self.admission = Admission(config.max_concurrent, config.queue_size, config.queue_timeout)
        self.limits, self.metrics = KeyLimits(), Metrics()
        self.log = RequestLog(config.request_log)
        self.exchanges: set[Exchange] = set()
        self._facts = Facts(config.model, config.router, config.max_output_tokens, int(time.time()))

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """One request; whatever goes wrong is an answer in the dialect of its route."""
        origin = cors.headers(request.headers.get("Origin"), self.config.cors_origins)
        exchange = Exchange(request, ids.of(request.headers.get(ids.HEADER)), origin)
        self.exchanges.add(exchange)
        try:
            return await self._answer(exchange)
        except Refusal as refusal:
            return self._refused(exchange, refusal)
        except asyncio.CancelledError:
            exchange.status = exchange.status or CLIENT_LEFT
            exchange.ended = "client left" if exchange.ended == "whole" else exchange.ended
            raise
        finally:
            self.exchanges.discard(exchange)
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
        self.truth.word.require()
        name = exchange.request.path.removeprefix(routes.MODELS).removeprefix("/")
        anthropic = "anthropic-version" in exchange.request.headers
        return _json(exchange, 200, dialects.models(self._facts, name, anthropic=anthropic))

    async def _generate(self, exchange: Exchange, route: Route) -> web.StreamResponse:
        if exchange.key.name != keys.GUARD:  # its test request is what makes the appliance READY
            self.truth.word.require()
        with self.limits.entered(exchange.key):
            raw = await body.read(exchange.request, self.config.max_body, self.config.body_timeout)
            exchange.bytes_in = len(raw)
            asked = dialects.prepare(route.path, body.parsed(raw), self._facts)
            exchange.stream = asked.stream
            sent = orjson.dumps(asked.body) if asked.changed else raw
            try:
                async with (
                    self._slots(exchange, route, asked),
                    self.upstream.post(exchange, route.path, sent) as answer,
                ):
                    return await self._pass_on(exchange, asked, answer)
            finally:
                if exchange.usage is not None:
                    self.limits.spend(exchange.key, sum(exchange.usage))

    @asynccontextmanager
    async def _slots(self, exchange: Exchange, route: Route, asked: Asked) -> AsyncIterator[None]:
        assert exchange.series is not None
        if route.kind is Kind.SMALL:
            yield
            return
        async with self.admission.slots(asked.slots):
            exchange.waited = time.monotonic() - exchange.begun
            exchange.series.waited.add(exchange.waited)
            exchange.series.running += 1
            try:
                yield
            finally:
                exchange.series.running -= 1

    async def _pass_on(self, exchange: Exchange, asked: Asked, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        exchange.status = answer.status
        if "event-stream" in answer.headers.get("Content-Type", ""):
            return await relay.stream(exchange, asked, answer)
        return await relay.whole(exchange, asked, answer)

    def _refused(self, exchange: Exchange, refusal: Refusal) -> web.StreamResponse:
        exchange.status, exchange.ended = refusal.status, "refused"
        headers = {**exchange.headers(), **errors.headers(refusal)}
        text = errors.body(exchange.dialect, refusal, exchange.id)
        answer = web.Response(body=text, status=refusal.status, headers=headers)
        if refusal.close:
            answer.force_close()
        return answer

    async def watch(self) -> None:
        """End what a client holds up: one that takes nothing of its answer for too long is gone."""
        while True:
            await asyncio.sleep(1.0)
            bound = time.monotonic() - self.config.stall_timeout
            for exchange in list(self.exchanges):
                if exchange.writing is not None and exchange.writing < bound and exchange.request.transport:
                    exchange.ended = "client stalled"
                    with contextlib.suppress(AttributeError):
                        exchange.request.transport.abort()


def _json(exchange: Exchange, status: int, content: Any) -> web.Response:
    exchange.status = status
    headers = {**exchange.headers(), "Content-Type": "application/json"}
    return web.Response(body=orjson.dumps(content), status=status, headers=headers)
