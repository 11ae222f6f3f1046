"""An API that anybody may use: no key, and an address that others reach."""

from __future__ import annotations

from dsv4_pd.host.address import bracketed
from dsv4_pd.host.loopback import is_loopback
from dsv4_pd.settings.schema import Settings


def notices(settings: Settings) -> tuple[str, ...]:
    """What to tell the operator; empty where a key is asked for, or only this machine can connect."""
    if settings.api_key is not None or is_loopback(settings.host):
        return ()
    return (
        f"the API listens on {bracketed(settings.host)}:{settings.port} and asks for no key (DSV4_API_KEY is unset): "
        "anyone who can reach that port may use the model; set DSV4_API_KEY_FILE or DSV4_API_KEY, or "
        "DSV4_HOST=127.0.0.1 (in a container: publish the port on 127.0.0.1)",
    )
