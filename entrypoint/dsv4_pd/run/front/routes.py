"""The routes that exist. Whatever is not here is a 404, the router's administration first of all."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from dsv4_pd.plan.front.config import RouterName


class Dialect(StrEnum):
    """Whose API a route speaks: it decides what an error looks like and how a stream ends."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    RESPONSES = "responses"
    NATIVE = "native"


class Kind(StrEnum):
    """What the front does with a request."""

    HEALTH = "health"
    LIVE = "live"
    PAGE = "page"
    MODELS = "models"
    GENERATE = "generate"  # takes a slot, and may stream
    SMALL = "small"  # is passed on without a slot


@dataclass(frozen=True, slots=True)
class Route:
    """One endpoint. `smg`: only that router has it."""

    path: str
    method: str
    kind: Kind
    dialect: Dialect = Dialect.OPENAI
    smg: bool = False

    @property
    def open(self) -> bool:
        """Whether it asks for no key."""
        return self.kind in (Kind.HEALTH, Kind.LIVE, Kind.PAGE)


CHAT, TEXT, NATIVE = "/v1/chat/completions", "/v1/completions", "/generate"
MESSAGES, COUNT, RESPONSES, MODELS = "/v1/messages", "/v1/messages/count_tokens", "/v1/responses", "/v1/models"
ONE_MODEL = Route("/v1/models/{id}", "GET", Kind.MODELS)
_MODEL = re.compile(r"/v1/models/.+")

ROUTES = (
    Route(CHAT, "POST", Kind.GENERATE),
    Route(TEXT, "POST", Kind.GENERATE),
    Route(NATIVE, "POST", Kind.GENERATE, Dialect.NATIVE),
    Route(MESSAGES, "POST", Kind.GENERATE, Dialect.ANTHROPIC, smg=True),
    Route(COUNT, "POST", Kind.SMALL, Dialect.ANTHROPIC, smg=True),
    Route(RESPONSES, "POST", Kind.GENERATE, Dialect.RESPONSES, smg=True),
    Route(MODELS, "GET", Kind.MODELS),
    *(Route(path, "GET", Kind.HEALTH) for path in ("/health", "/readyz", "/v1/health/ready")),
    *(Route(path, "GET", Kind.LIVE) for path in ("/livez", "/v1/health/live")),
    Route("/", "GET", Kind.PAGE),
)
_BY_PATH = {route.path: route for route in ROUTES}
_SAME = {"HEAD": "GET"}


@dataclass(frozen=True, slots=True)
class Nowhere:
    """Why a request leads nowhere: 404, or 405 with the method that the path has."""

    status: int
    message: str
    dialect: Dialect
    allow: str = ""


def find(method: str, path: str, router: RouterName) -> Route | Nowhere:
    """The route of a request.

    >>> find("GET", "/v1/models", "smg").kind.value, find("GET", "/workers", "smg").status
    ('models', 404)
    >>> find("POST", "/v1/messages", "sglang-router").message
    'POST /v1/messages is not served by sglang-router; start the appliance with DSV4_ROUTER=smg'
    """
    route = _BY_PATH.get(path) or (ONE_MODEL if _MODEL.fullmatch(path) else None)
    if route is None:
        return Nowhere(404, f"Unknown request URL: {method} {path[:200]}. docs/api.md lists what is served.", of(path))
    if _SAME.get(method, method) != route.method:
        words = f"{method} is not allowed on {path[:200]}, expected {route.method}"
        return Nowhere(405, words, route.dialect, route.method)
    if route.smg and router != "smg":
        words = f"{method} {path} is not served by {router}; start the appliance with DSV4_ROUTER=smg"
        return Nowhere(404, words, route.dialect)
    return route


def of(path: str) -> Dialect:
    """The dialect of a path that may not exist.

    >>> of("/v1/messages/batches").value, of("/v1/embeddings").value
    ('anthropic', 'openai')
    """
    if path.startswith(MESSAGES):
        return Dialect.ANTHROPIC
    return Dialect.RESPONSES if path.startswith(RESPONSES) else Dialect.OPENAI
