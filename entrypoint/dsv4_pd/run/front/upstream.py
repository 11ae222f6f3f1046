"""The way to the router: one pool of connections on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from dsv4_pd.run.front import errors
from dsv4_pd.run.front.errors import Refusal
from dsv4_pd.run.front.exchange import Exchange

CONNECT_S = 5.0
ERROR_BYTES = 64 * 1024
# What a client may tell the servers beside the body; traces, and the dialects' own switches.
PASSED = ("traceparent", "tracestate", "baggage", "anthropic-version", "anthropic-beta", "openai-beta")
# A router's status -> ours; what is not here stays. 401 would be our own key at the router, which is no client's fault.
STATUSES = {401: 502, 403: 502, 408: 504, 415: 400, 422: 400, 501: 404}


class Upstream:
    """The router. `key`: what it asks for."""

    def __init__(self, url: str, key: str | None, timeout: float) -> None:
        self._url, self._timeout = url, timeout
        self._headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._session: aiohttp.ClientSession | None = None

    def open(self) -> None:
        """Needs a running loop. Nothing is read from the environment: no proxy stands between us and loopback."""
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=2.0, use_dns_cache=False)
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_S),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=1 << 16,
        )

    async def close(self) -> None:
        """Close the pool."""
        if self._session is not None:
            await self._session.close()

    @asynccontextmanager
    async def post(self, exchange: Exchange, path: str, body: bytes) -> AsyncIterator[aiohttp.ClientResponse]:
        """The router's answer, with its body still to come; leaving the block early ends the connection, which is how
        the servers learn that nobody waits any more. Raises Refusal for an error, and where there is no answer.
        """
        assert self._session is not None
        asked = exchange.request.headers
        headers = {**self._headers, "x-request-id": exchange.id}
        headers.update({name: asked[name] for name in PASSED if name in asked})
        try:
            async with asyncio.timeout(self._timeout) as exchange.clock:
                async with self._session.post(self._url + path, data=body, headers=headers) as answer:
                    if answer.status >= 400:
                        raise await _refusal(answer)
                    yield answer
        except TimeoutError:
            raise Refusal(504, f"No answer within {self._timeout:.0f} s", code="timeout") from None
        except aiohttp.ClientConnectorError:
            raise Refusal(503, "The router is being restarted", code="router_down", retry_after=2) from None
        except aiohttp.ClientError as error:
            words = f"The router ended the connection before the answer was whole ({type(error).__name__})"
            raise Refusal(502, words, code="upstream_broke") from None


async def _refusal(answer: aiohttp.ClientResponse) -> Refusal:
    raw = await answer.content.read(ERROR_BYTES)
    status = STATUSES.get(answer.status, answer.status)
    words = errors.words(raw) or f"The servers answered {answer.status} without a word"
    given = answer.headers.get("Retry-After", "")
    retry = int(given) if given.isdigit() else 2 if status in (429, 503) else None
    code = errors.code(raw) if status >= 500 else None
    return Refusal(status, words, code=code, retry_after=retry)
