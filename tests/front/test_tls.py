"""TLS at the door: a real client, and a certificate that is renewed."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest
from dsv4_pd.run.front.tls import CertificateError
from support import certificates

from front.conftest import door


def certificate(folder: Path, name: str, tag: str = "") -> tuple[str, str]:
    cert, key = certificates.certificate(folder, name, tag)
    return str(cert), str(key)


def served(port: int, trusted: str) -> str:
    """The name in the certificate that a client which trusts only `trusted` is shown; raises where it is another."""
    import socket

    context = ssl.create_default_context(cafile=trusted)
    with (
        socket.create_connection(("127.0.0.1", port)) as raw,
        context.wrap_socket(raw, server_hostname="127.0.0.1") as s,
    ):
        found: Any = s.getpeercert()
        return str(dict(item[0] for item in found["subject"])["commonName"])


async def test_a_renewed_certificate_is_used_without_a_restart(tmp_path: Path) -> None:
    import asyncio

    cert, key = certificate(tmp_path, "first")
    async with door(tls_cert=cert, tls_key=key) as d:
        port = d.front.config.port
        assert (await d.post())[0] == 200
        assert await asyncio.to_thread(served, port, cert) == "first"
        fresh = certificate(tmp_path, "second", "2")
        Path(cert).write_bytes(Path(fresh[0]).read_bytes())
        assert d.front.certificate
        d.front.certificate.look()  # half a renewal: the key is still the old one's
        assert d.front.certificate.failed
        assert (await d.post())[0] == 200
        Path(key).write_bytes(Path(fresh[1]).read_bytes())
        d.front.certificate.look()
        assert d.front.certificate.failed is None
        assert await asyncio.to_thread(served, port, fresh[0]) == "second"
        assert (await d.post())[0] == 200


async def test_a_pair_that_does_not_fit_is_an_error_at_the_start(tmp_path: Path) -> None:
    cert, _ = certificate(tmp_path, "a")
    _, key = certificate(tmp_path, "b", "2")
    with pytest.raises(CertificateError, match="key values mismatch"):
        async with door(tls_cert=cert, tls_key=key):
            pass
