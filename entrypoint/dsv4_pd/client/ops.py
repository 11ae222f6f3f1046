"""The ops port as verify, bench and status read it."""

from __future__ import annotations

import json
from typing import Any

from dsv4_pd.client import http
from dsv4_pd.errors import ApplianceError
from dsv4_pd.run.ops.exposition import Sample, samples


class Ops:
    """One appliance's ops port."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    def status(self) -> dict[str, Any]:
        """The body of /status, whatever its status code: body and code agree, and the body says more.

        Raises:
            ApplianceError: when nothing answers there.
        """
        data = json.loads(self._get("/status"))
        return data if isinstance(data, dict) else {}

    def live(self) -> dict[str, Any]:
        """The present load."""
        data = json.loads(self._get("/load"))
        return data if isinstance(data, dict) else {}

    def metrics(self) -> str:
        """The exposition text."""
        return self._get("/metrics").decode()

    def samples(self) -> list[Sample]:
        """The exposition's values."""
        return samples(self.metrics())

    def _get(self, path: str) -> bytes:
        try:
            with http.client(self.url, 10.0) as client:
                got = client.get(self.url + path)
            if got.status_code == 421:  # it does not answer to this name, and says to which it does
                raise ApplianceError(f"{self.url}: {got.text.strip()}")
            return got.content
        except (*http.FAILURES, ValueError) as error:
            raise ApplianceError(
                f"no appliance answers at {self.url} ({error}); start one with `dsv4-pd serve`, "
                "or give its ops port with --url"
            ) from error


def by_role(seen: list[Sample], name: str) -> dict[str, float]:
    """One metric's value for each program by its name, summed over its other labels.

    >>> by_role([Sample("x", {"role": "decode", "member": "decode-2"}, 2.0), Sample("x", {"role": "router"}, 1.0)], "x")
    {'decode-2': 2.0, 'router': 1.0}
    """
    found: dict[str, float] = {}
    for sample in seen:
        if sample.name == name:
            role = sample.labels.get("member") or sample.labels.get("role", "")
            found[role] = found.get(role, 0.0) + sample.value
    return found
