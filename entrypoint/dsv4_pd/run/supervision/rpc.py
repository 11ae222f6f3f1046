"""supervisord's XML-RPC over its unix socket."""

from __future__ import annotations

import xmlrpc.client
from pathlib import Path
from typing import Any

_TIMEOUT_S = 10.0


def connect(socket: Path) -> Any:
    """The `supervisor` namespace as a proxy object.

    Calls raise httpx2.HTTPError or OSError when supervisord does not answer, xmlrpc.client.Fault when it refuses.
    """
    # The address is a formality: the transport connects to the socket.
    return xmlrpc.client.ServerProxy("http://127.0.0.1", transport=_Transport(socket)).supervisor


class _Transport(xmlrpc.client.Transport):
    """XML-RPC's bodies over httpx, a connection for each call."""

    def __init__(self, socket: Path) -> None:
        super().__init__()
        self._socket = socket

    def request(self, host: Any, handler: str, request_body: Any, verbose: bool = False) -> Any:
        """One call: `request_body` is the encoded XML; returns the decoded values as a tuple."""
        import httpx2  # the foreground calls once, at its end: until then the library takes no memory

        transport = httpx2.HTTPTransport(uds=str(self._socket), verify=False, trust_env=False)
        with httpx2.Client(transport=transport, trust_env=False, timeout=_TIMEOUT_S) as client:
            got = client.post(f"http://supervisor{handler}", content=request_body, headers={"Content-Type": "text/xml"})
            got.raise_for_status()
        values, _ = xmlrpc.client.loads(got.content)
        return values
