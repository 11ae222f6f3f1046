"""Probes of the servers and the router, each with a time-out; at most one probe of each kind is in flight."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Collection, Iterable
from typing import Any

import httpx2

from dsv4_pd.plan.guard.config import ServerConfig
from dsv4_pd.run import loopback_http
from dsv4_pd.run.guard.ask import workers
from dsv4_pd.run.guard.decide.states import Answer
from dsv4_pd.run.ops import exposition

QUICK = 2.0  # seconds for the whole of a question and its answer
METRICS = 5.0
LIST_S = 1.0  # between two looks at a list that was right, while the counts stay right
FRONT = "dsv4-pd"  # how the front signs its answers
_RESOLVED = {"page-size": "page_size", "kv-cache-dtype": "kv_cache_dtype"}  # flag -> its name in /server_info
SLOW = 30.0  # the server itself gives up after 20 s


class Probes:
    """HTTP probes over one client. `control_key` opens the router's administration, which no client's key does;
    `front_key` the front, while it lets in nobody else.
    """

    def __init__(self, api_key: str | None, control_key: str = "", front_key: str = "") -> None:
        self._headers = _bearer(api_key)
        self._control = _bearer(control_key)
        self._front = _bearer(front_key)
        self._client: httpx2.AsyncClient | None = None
        self._list_due = 0.0

    @property
    def client(self) -> httpx2.AsyncClient:
        """The client, opened at first use because it needs a running loop; a probe never waits for a connection."""
        if self._client is None:
            self._client = loopback_http.client(self._headers)
        return self._client

    async def close(self) -> None:
        """Close the client."""
        if self._client:
            await self._client.aclose()

    async def status(self, url: str, timeout: float = QUICK) -> Answer:
        """YES for 200, SILENT for a time-out, NO for any other answer and for a refused connection."""
        return (await self.get(url, timeout))[0]

    async def get(self, url: str, timeout: float = QUICK, headers: dict[str, str] | None = None) -> tuple[Answer, str]:
        """The answer, and its body."""
        try:
            async with asyncio.timeout(timeout):
                got = await self.client.get(url, headers=headers)
        except TimeoutError:
            return Answer.SILENT, ""
        except loopback_http.FAILURES:
            return Answer.NO, ""
        return (Answer.YES if got.status_code == httpx2.codes.OK else Answer.NO), got.text

    async def front(self, url: str) -> tuple[Answer, str]:
        """Whether the front answers, whatever it says: its word about the appliance is our own."""
        try:
            async with asyncio.timeout(QUICK):
                got = await self.client.get(f"{url}/livez", headers={"Authorization": ""})
        except TimeoutError:
            return Answer.SILENT, ""
        except loopback_http.FAILURES as error:
            return Answer.NO, f"does not answer ({type(error).__name__})"
        ours = got.headers.get("server") == FRONT
        return (Answer.YES, "") if ours else (Answer.NO, "another program answers on its port")

    async def ask(self, url: str, body: dict[str, Any]) -> httpx2.Response:
        """A client's request to the front."""
        return await self.client.post(url, json=body, headers=self._front or None)

    async def router(self, url: str, servers: Iterable[ServerConfig]) -> tuple[Answer, str]:
        """Whether the router has exactly our servers, all healthy, and what is wrong otherwise."""
        answer, text = await self.get(f"{url}/readiness")
        if answer is not Answer.YES:
            return answer, _reason(text)
        known, told = tuple(servers), _json(text)
        counts = {told.get("healthy_workers"), told.get("total_workers", len(known))}
        if counts == {len(known)} and time.monotonic() < self._list_due:
            return Answer.YES, ""
        return await self._list(url, known)

    async def listing(self, url: str, servers: Iterable[ServerConfig]) -> tuple[Answer, str, tuple[str, ...]]:
        """Among several members: whether the router serves and lists nobody else, what is wrong, and who of ours gets
        no requests.
        """
        known = tuple(servers)
        answer, text = await self.get(f"{url}/readiness")
        if answer is not Answer.YES:
            return answer, _reason(text), ()
        answer, text = await self._workers(url)
        if answer is not Answer.YES:
            return answer, "" if answer is Answer.SILENT else "does not list its workers", ()
        found = workers.parse(text)
        mismatch = workers.mismatch(found, known) if workers.foreign(found, known) else ""
        return (Answer.NO if mismatch else Answer.YES), mismatch, workers.unhealthy(found, known)

    async def _list(self, url: str, known: tuple[ServerConfig, ...]) -> tuple[Answer, str]:
        """What the list itself says: the counts can't tell a foreign worker in the place of one of ours."""
        answer, text = await self._workers(url)
        if answer is not Answer.YES:
            return answer, "" if answer is Answer.SILENT else "does not list its workers"
        mismatch = workers.mismatch(workers.parse(text), known)
        self._list_due = 0.0 if mismatch else time.monotonic() + LIST_S
        return (Answer.NO if mismatch else Answer.YES), mismatch

    async def reconcile(
        self, url: str, servers: Iterable[ServerConfig], api_key: str | None, down: Collection[str] = ()
    ) -> tuple[str, ...]:
        """Remove workers that are not ours from the router, then register ours, but for those that are down by name;
        returns the removed addresses.

        Not an error where it fails: asked again until the router lists exactly ours.
        """
        known = tuple(servers)
        found = workers.parse((await self._workers(url))[1])
        strange = workers.foreign(found, known)
        for one in strange:
            await self._control_call("DELETE", f"{url}/workers/{one.id}")
        for server in workers.absent(found, known):
            if server.name in down:
                continue
            await self._control_call("POST", f"{url}/workers", workers.entry(server, api_key))
        return tuple(one.url for one in strange)

    async def metrics(self, url: str) -> dict[str, float]:
        """SGLang's metrics, summed over their labels; empty when there is no answer."""
        answer, text = await self.get(f"{url}/metrics", METRICS)
        return samples(text) if answer is Answer.YES else {}

    async def longest(self, url: str) -> int | None:
        """Tokens of the longest request, prompt and answer together, that a server takes: its own word, which is less
        than was asked for where its KV pool is smaller.
        """
        answer, text = await self.get(f"{url}/v1/models")
        listed = _json(text).get("data") if answer is Answer.YES else None
        one = listed[0] if isinstance(listed, list) and listed and isinstance(listed[0], dict) else {}
        limit = one.get("max_model_len")
        return limit if isinstance(limit, int) and not isinstance(limit, bool) and limit > 0 else None

    async def resolved(self, url: str) -> dict[str, str]:
        """What a server made of flags that the plan leaves to it; empty when there is no answer."""
        answer, text = await self.get(f"{url}/server_info", METRICS)
        found = _json(text) if answer is Answer.YES else {}
        return {flag: str(found[key]) for flag, key in _RESOLVED.items() if key in found}

    async def _workers(self, url: str) -> tuple[Answer, str]:
        return await self.get(f"{url}/workers", headers=self._control)

    async def _control_call(self, method: str, url: str, body: dict[str, Any] | None = None) -> None:
        with contextlib.suppress(*loopback_http.FAILURES, TimeoutError):
            async with asyncio.timeout(QUICK):
                await self.client.request(method, url, json=body, headers=self._control)


def samples(text: str) -> dict[str, float]:
    """The sum of each metric over its labels.

    >>> samples('sglang:realtime_tokens_total{mode="a"} 3.0\\nsglang:realtime_tokens_total{mode="b"} 4.0')
    {'sglang:realtime_tokens_total': 7.0}
    """
    found: dict[str, float] = {}
    for sample in exposition.samples(text):
        if sample.name.startswith("sglang:"):
            found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found


def summed(several: Iterable[dict[str, float]]) -> dict[str, float]:
    """The sum of each metric over several servers.

    >>> summed([{"a": 1.0}, {"a": 2.0, "b": 3.0}])
    {'a': 3.0, 'b': 3.0}
    """
    found: dict[str, float] = {}
    for values in several:
        for name, value in values.items():
            found[name] = found.get(name, 0.0) + value
    return found


def _bearer(key: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


def _json(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def _reason(text: str) -> str:
    data = _json(text)
    return str(data.get("reason") or data.get("error") or data.get("status") or "does not answer")[:120]
