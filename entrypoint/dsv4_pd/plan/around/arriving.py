"""What a plan can say of a model that is not here yet, and what is known only when it is. Pure."""

from __future__ import annotations

from dsv4_pd.plan.around.surroundings import Surroundings
from dsv4_pd.plan.notices import Notice, NoticeKind
from dsv4_pd.settings.schema import Settings


def notices(settings: Settings, around: Surroundings) -> tuple[Notice, ...]:
    """Nothing for a model that is here: then the plan is what is started, to the last byte."""
    if around.model.path is not None:
        return ()
    return tuple(filter(None, (_fetched(settings, around), _unread(settings, around))))


def _fetched(settings: Settings, around: Surroundings) -> Notice:
    name = settings.model
    if around.source is not None:
        text = f"{name} is not here: `serve` fetches it into {around.source} before it starts the servers"
        return Notice(NoticeKind.MODEL_ABSENT, "DSV4_MODEL", text)
    branch = settings.model_revision or "main"
    text = (
        f"{name} is not here and no commit is pinned: `serve` fetches what {branch!r} leads to at that time, and the"
        " servers' model-path, <per run> here, is that commit's folder; set DSV4_MODEL_REVISION to a commit to fix it"
    )
    return Notice(NoticeKind.MODEL_UNPINNED, "DSV4_MODEL_REVISION", text)


def _unread(settings: Settings, around: Surroundings) -> Notice | None:
    if around.config is not None:
        return None
    text = (
        f"nothing is known of {settings.model} until its config.json is here: `serve` plans again then, and context,"
        " memory, experts and speculative decoding may come out differently"
    )
    return Notice(NoticeKind.MODEL_UNREAD, "DSV4_MODEL", text)
