"""Greedy answers of one server and of the pair: right or not, and equal."""

from __future__ import annotations

import json
from typing import Any

from gpu import client
from gpu.parts.questions import QUESTIONS, needles
from gpu.record import Part
from gpu.servers import WORK

KEPT = WORK / "single.json"
EQUAL = 0.9  # share of equal answers: batches differ between the two, and near-ties then fall either way


def messages() -> dict[str, list[tuple[str, str]]]:
    return {"question": QUESTIONS, "needle": needles()}


def chat(base: str, text: str, tokens: int = 40, timeout: float = 120.0) -> tuple[int, Any]:
    body = {"model": "m", "messages": [{"role": "user", "content": text}], "max_tokens": tokens, "temperature": 0,
            "logprobs": True, "top_logprobs": 2}  # fmt: skip
    return client.call(f"{base}/v1/chat/completions", body, timeout)


def said(answer: Any) -> tuple[str, float]:
    """Text, and the least gap between the two likeliest tokens."""
    choice = answer["choices"][0]
    content = (choice.get("logprobs") or {}).get("content") or []
    tops = [item["top_logprobs"] for item in content if len(item.get("top_logprobs", ())) > 1]
    return choice["message"]["content"] or "", min((top[0]["logprob"] - top[1]["logprob"] for top in tops), default=0.0)


def asked(part: Part, base: str) -> dict[str, tuple[str, float]]:
    """Answers by question; a question that fails is a failed check."""
    found = {}
    for kind, items in messages().items():
        right = 0
        for text, wanted in items:
            status, answer = chat(base, text)
            if status != 200:
                part.expect(False, f"{kind}: {base} answers", status=status, answer=str(answer)[:300])
                continue
            found[text] = said(answer)
            right += wanted in found[text][0]
        part.line("answers", of=kind, asked=len(items), right=right,
                  said=[found[text][0][:60] for text, _ in items if text in found])  # fmt: skip
    return found


def single(part: Part, base: str) -> None:
    """Keep one server's answers for the pair."""
    KEPT.write_text(json.dumps(asked(part, base)))


def compared(part: Part, base: str, what: str = "the pair answers as one server does") -> None:
    """Answers of the pair, or of another server, against one server's where they were kept."""
    found = asked(part, base)
    if not KEPT.exists():
        part.line("answers", of="one server", asked=0)
        return
    one = json.loads(KEPT.read_text())
    both = [text for text in found if text in one]
    equal = [text for text in both if found[text][0] == one[text][0]]
    apart = [
        {"here": found[t][0][:80], "single": one[t][0][:80], "least_gap": found[t][1]} for t in both if t not in equal
    ]
    part.expect(len(equal) >= EQUAL * len(both), what, equal=len(equal), of=len(both), apart=apart)
