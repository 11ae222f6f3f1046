"""What belongs to no one API: the other routes, what does not exist, and keys."""

from __future__ import annotations

from api import checks
from api import checks_dialects as more
from api.case import CHAT, MESSAGES, MODEL, NATIVE, RESPONSES, TEXT, Case
from api.client import BEARER
from api.rows.messages import HELLO

COUNT = f"{MESSAGES}/count_tokens"
TINY = {"model": MODEL, "prompt": "two", "max_tokens": 2}
X_API_KEY, LOWER = "x-api-key: {}", "Authorization: bearer {}"

OTHERS = (
    Case("`GET /v1/models`", "/v1/models", None, check=checks.listed(MODEL)),
    Case("`GET /v1/models/{id}`", f"/v1/models/{MODEL}", None, check=more.model(MODEL)),
    Case("`GET /v1/models/{id}` of another", "/v1/models/nosuch", None, 404),
    Case("`POST /v1/messages/count_tokens`", COUNT, HELLO, 404, 200, more.counted),
    Case("`POST /v1/messages?beta=true`", f"{MESSAGES}?beta=true", HELLO, 404, 200),
    *(Case(f"`GET {path}`", path, None, check=more.state, key=None)
      for path in ("/health", "/readyz", "/livez", "/v1/health/ready", "/v1/health/live")),
    Case("`GET /`", "/", None, check=more.page, key=None),
    Case("a body that is no object", CHAT, "[]", 400),
    Case("a body larger than any prompt that fits", CHAT, '{"model": "' + "x" * 1_200_000, 413),
    Case("`GET /v1/chat/completions`", CHAT, None, 405),
    Case("`DELETE /v1/models/{id}`", f"/v1/models/{MODEL}", None, 405, method="DELETE"),
    Case("`GET /v1/responses/{id}`", f"{RESPONSES}/resp_x", None, 404),
    Case("`POST /v1/responses/{id}/cancel`", f"{RESPONSES}/resp_x/cancel", {}, 404),
    Case("`POST /v1/conversations`", "/v1/conversations", {}, 404),
    Case("`POST /v1/messages/batches`", f"{MESSAGES}/batches", {"requests": []}, 404),
    Case("`POST /v1/embeddings`", "/v1/embeddings", {"model": MODEL, "input": "x"}, 404),
    Case("`POST /v1/rerank`", "/v1/rerank", {"model": MODEL, "query": "x", "documents": ["a"]}, 404),
    Case("`POST /v1/classify`", "/v1/classify", {"model": MODEL, "input": "x"}, 404),
    Case("`POST /v1/score`", "/v1/score", {"model": MODEL, "query": "x", "items": ["a"]}, 404),
    Case("`POST /v1/audio/transcriptions`", "/v1/audio/transcriptions", {}, 404),
    Case("`POST /tokenize`", "/tokenize", {"model": MODEL, "prompt": "x"}, 404),
    Case("`POST /open_session`", "/open_session", {"capacity_of_str_len": 9}, 404),
    Case("`POST /abort_request`", "/abort_request", {"rid": "x"}, 404),
    Case("`POST /flush_cache`", "/flush_cache", {}, 404),
    Case("`GET /workers`", "/workers", None, 404),
    Case("`GET /server_info`", "/server_info", None, 404),
    Case("`GET /metrics`", "/metrics", None, 404),
)  # fmt: skip
KEYED = (
    *(
        Case(f"{shown} key, `{path}`", path, body, 401, key=key)
        for shown, key in (("no", None), ("wrong", "wrong"))
        for path, body in ((CHAT, HELLO), (TEXT, TINY), (NATIVE, {"text": "x"}))
    ),
    *(
        Case(f"{shown} key, `{path}`", path, HELLO, 404, 401, key=key)
        for shown, key in (("no", None), ("wrong", "wrong"))
        for path in (MESSAGES, RESPONSES)
    ),
    *(
        Case(f"`{header.format('…')}`, `{path}`", path, body, want, 200, header=header)
        for header in (BEARER, LOWER, X_API_KEY)
        for path, body, want in ((TEXT, TINY, 200), (MESSAGES, HELLO, 404))
    ),
    Case("a wrong key, `x-api-key: …`", TEXT, TINY, 401, key="wrong", header=X_API_KEY),
    Case("no key, `/workers`", "/workers", None, 404, key=None),
    Case("wrong key, `/workers`", "/workers", None, 404, key="wrong"),
    Case("no key, `/v1/models`", "/v1/models", None, 401, key=None),
)
