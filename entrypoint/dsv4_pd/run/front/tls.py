"""TLS at the door, with the certificate that lies there now: renewals need no restart."""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path

from dsv4_pd.plan.front.certificate import reason

LOOK_S = 5.0
log = logging.getLogger("dsv4_pd.run.front")


class CertificateError(ValueError):
    """A certificate that can't be used: which files, and why."""


class Certificate:
    """One context for as long as the front runs; new connections get what was loaded into it last."""

    def __init__(self, cert: str, key: str) -> None:
        self._files = (Path(cert), Path(key))
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.set_alpn_protocols(["http/1.1"])
        self.failed: str | None = None
        try:
            self._seen = self._stamp()
            self._load(self.context)
        except OSError as error:  # SSLError is one
            raise CertificateError(f"{cert}, {key}: {reason(error)}, expected a certificate and its key") from None

    def _load(self, context: ssl.SSLContext) -> None:
        context.load_cert_chain(*map(str, self._files))

    def _stamp(self) -> tuple[tuple[int, int], ...]:
        return tuple((found.st_mtime_ns, found.st_ino) for found in (path.stat() for path in self._files))

    def look(self) -> None:
        """Load the files where they changed; a pair that does not fit is tried again, and the old one stays."""
        try:
            stamp = self._stamp()
            if stamp == self._seen:
                return
            self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))  # a half-written pair must not touch the one in use
            self._load(self.context)
        except OSError as error:
            words = f"{self._files[0]}: {reason(error)}"
            if words != self.failed:
                log.warning("the new certificate is not used: %s", words)
            self.failed = words
            return
        self._seen, self.failed = stamp, None
        log.info("a new certificate is in use: %s", self._files[0])

    async def watch(self) -> None:
        """Look for as long as the front runs."""
        while True:
            await asyncio.sleep(LOOK_S)
            self.look()
