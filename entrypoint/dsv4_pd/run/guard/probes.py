"""Questions to the servers and the router, each with a bound; each runs in one loop, so none overtakes its like."""

from __future__ import annotations

import json
import re
from typing import Any

import aiohttp

from dsv4_pd.run.guard.states import Answer

QUICK = aiohttp.ClientTimeout(total=2.0)
SLOW = aiohttp.ClientTimeout(total=30.0)  # the server itself gives up after 20 s
_SENT, _SPEED = "sglang:kv_transfer_total_mb", "sglang:kv_transfer_speed_gb_s"
_SAMPLE = re.compile(r"^(sglang:\w+)(?:\{[^}]*\})? (\S+)", re.MULTILINE)


class Probes:
    """HTTP probes over one session."""

    def __init__(self, api_key: str | None) -> None:
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._session: aiohttp.ClientSession | None = None

    @property
    def session(self) -> aiohttp.ClientSession:
        """The session, opened at first use because it needs a running loop; a probe never waits for a connection."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                headers=self._headers, connector=aiohttp.TCPConnector(limit=0, force_close=True)
            )
        return self._session

    async def close(self) -> None:
        """Close the session."""
        if self._session:
            await self._session.close()

    async def status(self, url: str, timeout: aiohttp.ClientTimeout = QUICK) -> Answer:
        """YES for 200, SILENT for a time-out, NO for any other answer and for a refused connection."""
        return (await self.get(url, timeout))[0]

    async def get(self, url: str, timeout: aiohttp.ClientTimeout = QUICK) -> tuple[Answer, str]:
        """The answer, and its body."""
        try:
            async with self.session.get(url, timeout=timeout) as got:
                text = await got.text()
                return (Answer.YES if got.status == 200 else Answer.NO), text
        except TimeoutError:
            return Answer.SILENT, ""
        except (aiohttp.ClientError, OSError, UnicodeDecodeError):
            return Answer.NO, ""

    async def router(self, url: str, workers: int) -> tuple[Answer, str]:
        """Whether the router counts all workers as healthy, and what it says."""
        answer, text = await self.get(f"{url}/readiness")
        healthy = _json(text).get("healthy_workers")
        if answer is Answer.YES and isinstance(healthy, int) and healthy < workers:
            return Answer.NO, f"{healthy} of {workers} workers healthy"
        return answer, "" if answer is Answer.YES else _reason(text)

    async def register(self, url: str, worker: dict[str, Any]) -> None:
        """Tell the router about a worker now, instead of at its next attempt; it ignores one that it has."""
        try:
            async with self.session.post(f"{url}/workers", json=worker, timeout=QUICK):
                pass
        except (aiohttp.ClientError, TimeoutError, OSError):
            pass  # asked again until the router lists it

    async def metrics(self, url: str) -> dict[str, float]:
        """SGLang's metrics, summed over their labels; empty when there is no answer."""
        answer, text = await self.get(f"{url}/metrics", aiohttp.ClientTimeout(total=5.0))
        return samples(text) if answer is Answer.YES else {}


def samples(text: str) -> dict[str, float]:
    """The sum of each metric over its labels.

    >>> samples('sglang:realtime_tokens_total{mode="a"} 3.0\\nsglang:realtime_tokens_total{mode="b"} 4.0')
    {'sglang:realtime_tokens_total': 7.0}
    """
    found: dict[str, float] = {}
    for name, value in _SAMPLE.findall(text):
        found[name] = found.get(name, 0.0) + float(value)
    return found


def link_of(values: dict[str, float]) -> dict[str, float]:
    """The KV link in figures, from the sender's metrics since its start; empty from a server that sent nothing.

    >>> link_of({"sglang:kv_transfer_total_mb_count": 4.0, "sglang:kv_transfer_total_mb_sum": 2.0,
    ...          "sglang:kv_transfer_speed_gb_s_count": 4.0, "sglang:kv_transfer_speed_gb_s_sum": 6.0})
    {'transfers': 4.0, 'mb': 2.0, 'gb_s': 1.5}
    """
    sent, timed = values.get(f"{_SENT}_count", 0.0), values.get(f"{_SPEED}_count", 0.0)
    if not sent:
        return {}
    found = {"transfers": sent, "mb": round(values.get(f"{_SENT}_sum", 0.0), 3)}
    return found | ({"gb_s": round(values.get(f"{_SPEED}_sum", 0.0) / timed, 3)} if timed else {})


def _json(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def _reason(text: str) -> str:
    data = _json(text)
    return str(data.get("reason") or data.get("error") or data.get("status") or "does not answer")[:120]
