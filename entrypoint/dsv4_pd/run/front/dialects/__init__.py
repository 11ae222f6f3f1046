"""The APIs that clients speak, as pure functions: request in, request out; answer in, answer out."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from dsv4_pd.run.front import routes
from dsv4_pd.run.front.dialects import chat, messages, responses, text
from dsv4_pd.run.front.dialects.base import Asked, Body, Facts
from dsv4_pd.run.front.errors import Refusal

PREPARE: dict[str, Callable[[Body, Facts], Asked]] = {
    routes.CHAT: chat.prepare,
    routes.TEXT: text.prepare,
    routes.NATIVE: text.native,
    routes.MESSAGES: messages.prepare,
    routes.COUNT: messages.count,
    routes.RESPONSES: responses.prepare,
}


def prepare(path: str, data: Body, facts: Facts) -> Asked:
    """A request as it is passed on; raises Refusal for what can't be served."""
    return PREPARE[path](data, facts)


def models(facts: Facts, name: str, *, anthropic: bool) -> Body:
    """The list of models, or one of them where it is named; raises Refusal 404."""
    if name and name != facts.model:
        words = f"The model {name[:200]!r} does not exist here; this server has {facts.model!r}"
        raise Refusal(404, words, param="model", code="model_not_found")
    limit = {} if facts.context_length is None else {"max_model_len": facts.context_length}
    if anthropic:
        created = datetime.fromtimestamp(facts.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        one: Body = {"type": "model", "id": facts.model, "display_name": facts.model, "created_at": created, **limit}
        many = {"data": [one], "has_more": False, "first_id": facts.model, "last_id": facts.model}
        return one if name else many
    one = {"id": facts.model, "object": "model", "created": facts.created, "owned_by": "dsv4-pd", **limit}
    return one if name else {"object": "list", "data": [one]}
