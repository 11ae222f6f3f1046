"""Single mode's answers: asked live, started for the purpose, or kept in the state folder by an earlier verify."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dsv4_pd.client.api import Api
from dsv4_pd.client.child import second
from dsv4_pd.verify import prompts
from dsv4_pd.verify.base import Subject

Answers = dict[str, str | None]
_TOKENS = 48


def ask(api: Api, seed: int) -> Answers:
    """Every question's answer at temperature 0, long ones included; None where none came."""
    questions = (*prompts.QUESTIONS, *(prompts.filler(words, seed) for words in (50, 400)))
    replies = {question: api.chat(question, max_tokens=_TOKENS) for question in questions}
    return {question: reply.content if reply.status == 200 else None for question, reply in replies.items()}


def key_of(status: dict[str, Any]) -> str:
    """Answers are comparable for one model, one revision, one engine."""
    about = status.get("about") or {}
    model = about.get("weights") or {}
    return "|".join(
        str(part) for part in (model.get("name"), model.get("revision"), about.get("versions", {}).get("sglang"))
    )


def load(subject: Subject, key: str) -> Answers | None:
    """The recorded answers, when there are any for this key."""
    path = _file(subject)
    try:
        data = json.loads(path.read_text(encoding="utf-8")) if path else {}
    except (OSError, ValueError):
        return None
    found = data.get(key)
    return found if isinstance(found, dict) else None


def save(subject: Subject, key: str, answers: Answers) -> str:
    """Record them; says where."""
    path = _file(subject)
    if path is None:
        return "not kept: the state folder is not visible from here"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({key: answers}, indent=1), encoding="utf-8")
    return str(path)


def single_answers(subject: Subject) -> Answers:
    """Start the same model in single mode beside the pair, ask, stop."""
    with second(subject.status, layout="single", mode="") as other:
        return ask(Api(other.api_url, subject.api.model, subject.api.key), subject.options.seed)


def _file(subject: Subject) -> Path | None:
    folder = subject.local.state_dir if subject.local else None
    return folder / "single-answers.json" if folder else None
