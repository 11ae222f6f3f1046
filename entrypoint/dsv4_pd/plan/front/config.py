"""What the front is told, as plain data: the plan writes it, the front reads it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, Self

from dsv4_pd.host.loopback import LOOPBACK

RouterName = Literal["sglang-router", "smg"]


@dataclass(frozen=True, slots=True)
class FrontConfig:
    """Times in seconds, sizes in bytes. A file that is None is not used."""

    upstream: str  # the router's address: http://127.0.0.1:PORT
    model: str  # the name in the API
    host: str = LOOPBACK
    port: int = 8000
    metrics_port: int = 0  # on loopback; 0: none
    router: RouterName = "smg"
    health_file: str | None = None  # what the guard publishes; None: no guard, always serving
    key_file: str | None = None  # the one key of DSV4_API_KEY
    keys_file: str | None = None  # named keys with limits
    guard_key_file: str | None = None  # the guard's own key, which is let in while the appliance is not READY
    upstream_key_file: str | None = None  # what the router asks for
    cors_origins: tuple[str, ...] = ()
    tls_cert: str | None = None
    tls_key: str | None = None
    max_body: int = 8 << 20
    max_concurrent: int = 64  # answers being made at once: n x prompts of each request
    queue_size: int = 256
    queue_timeout: float = 60.0
    request_timeout: float = 1800.0
    drain_timeout: float = 30.0  # for what runs when it is told to stop
    stall_timeout: float = 60.0  # a client that takes nothing for so long is gone
    keep_alive: float = 15.0  # a stream that brings nothing for so long gets a comment
    body_timeout: float = 60.0  # for a request's body to come
    max_output_tokens: int | None = None
    max_connections: int = 4096
    request_log: str | None = None  # a file, or "-" for stdout
    page: bool = True
    context_length: int | None = None  # tokens of prompt and answer together; the servers' own word may be less

    def to_json(self) -> str:
        """The text of the file."""
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Raises TypeError for a field that this version does not know."""
        data: dict[str, Any] = json.loads(text)
        if unknown := data.keys() - {field.name for field in fields(cls)}:
            raise TypeError(f"front.json: unknown {', '.join(sorted(unknown))}")
        return cls(**{**data, "cors_origins": tuple(data.get("cors_origins", ()))})
