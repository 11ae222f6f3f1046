"""Whether TLS can be served with a certificate and a key."""

from __future__ import annotations

import ssl
from pathlib import Path


def unusable(cert: Path, key: Path) -> str | None:
    """Why TLS can't be served with this pair; the key's own words are never part of it."""
    for path in (cert, key):
        try:
            path.open("rb").close()
        except OSError as error:
            return f"{path}: {error.strerror}"
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(str(cert), str(key), password=_no_passphrase)
    except (OSError, ValueError) as error:  # SSLError is an OSError
        return f"{cert}, {key}: {reason(error)}"
    return None


def _no_passphrase() -> str:
    """Instead of a question on a terminal that nobody sits at."""
    raise ValueError("the key has a passphrase")


def reason(error: Exception) -> str:
    """The reason alone; OpenSSL's own words for a pair that does not fit are KEY_VALUES_MISMATCH and the like."""
    if isinstance(error, OSError):
        told = getattr(error, "reason", None) or error.strerror or error
        return str(told).lower().replace("_", " ")
    return str(error)
