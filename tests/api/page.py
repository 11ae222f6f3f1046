"""docs/api.md from the verdicts of the conformance run."""

from __future__ import annotations

import json
import re
from pathlib import Path

from api.cases import SECTIONS, Case
from api.checks import reason
from api.client import HANGS, Answer
from api.fronts import ROUTERS

ROOT = Path(__file__).resolve().parents[2]
VERDICTS = Path(__file__).with_name("verdicts.json")
PAGE = ROOT / "docs" / "api.md"
Verdicts = dict[str, dict[str, str]]  # section/request -> router -> verdict

HEAD = """# What the API serves

Written by the conformance run (`make api`): every row was sent to the real prefill/decode pair on the CPU through both
routers, and the run fails when an answer differs from this page. SGLang 0.5.23, sglang-router 0.3.2, smg 1.13.0.
The page describes the API, not the model.

* Nothing here hangs. What a pair cannot serve is refused by both servers at once, in the engine's own request path, by
  the plugin `dsv4-gate` ([ADR 0601](adr/0601-the-gate-is-in-the-engine.md)). The guard reads its record before READY.
* What costs much is refused before it costs ([ADR 0604](adr/0604-what-costs-much-is-refused.md)): a body above 16 bytes
  for each token of the context (at least 1 MiB); a prompt that can't fit, before it is tokenized; grammars that cannot
  end, that fit one text in many ways, or that are too large (128 KiB, 100 levels); more than 1,024 entries of
  `logit_bias`, `stop_token_ids` or `token_ids_logprob`; more than 4,096 bytes of `stop`. `stop_regex` is off.
* An error's body says what is wrong with the request, and nothing of the engine's files and modules.
* `n` is served as n requests; prompts x n may not exceed `DSV4_MAX_RUNNING_REQUESTS` in one request.
* `DSV4_ROUTER=smg` adds `/v1/messages`, `/v1/responses` and an exact queue limit. sglang-router drops fields that it
  does not know; both check types and ranges before a request reaches the engine.
* Clients that leave are noticed: both servers drop the request within seconds (tested through both routers, streaming
  and not, before and after the first token).
"""
OVERLOAD = """
## Overload

| | sglang-router | smg |
|---|---|---|
| let in at once | `DSV4_MAX_CONCURRENT_REQUESTS`, and one more each second | `DSV4_MAX_CONCURRENT_REQUESTS` |
| more than that | at once {sglang-router} | waits: `DSV4_QUEUE_SIZE` requests, 60 s each, then 503 with `Retry-After` |
| more than the queue | (no queue) | at once {smg} |
| admitted, and decode is full for longer than `DSV4_LINK_TIMEOUT` | 503 with the reason | 503 with the reason |

sglang-router's 429 has no body and no `Retry-After`, and its limit is not exact; neither can be had from it
([ADR 0602](adr/0602-queue-limits-at-the-front.md)). Who needs either sets `DSV4_ROUTER=smg`.
"""


def verdict(case: Case, answer: Answer) -> str:
    """The cell of the table; a served answer is checked on the way."""
    if answer.status == HANGS:
        return "**hangs**"
    if answer.status == 200:
        return case.check(answer)
    words = steady(reason(answer))
    return f"{answer.status}: {words}" if words else f"{answer.status}, no body"


def steady(words: str) -> str:
    """An error's words without what differs from run to run, short enough for a table.

    >>> steady("[15:40:20] /project/cpp/x.cc:83: Request 'ab12' failed: " + "x" * 200)[:30]
    "Request 'ab12' failed: xxxxxxx"
    >>> steady("The input (9006 tokens) is longer than the context (4096 tokens).")
    'The input (N tokens) is longer than the context (4096 tokens).'
    >>> steady("n: range [{'max': 1}]"), steady("expected 0 to 1535")
    ('n: range', 'expected 0 to N')
    """
    words = re.sub(r"\[\d+:\d+:\d+\] \S+:\d+: ", "", words)
    words = re.sub(r" \[\{.*", "", words)  # a map in no order
    words = re.sub(r"(\(|\b0 to |\[0, )\d{4,}(?! tokens\)\.)", r"\1N", words)  # counts that depend on the demo's model
    words = words.replace("|", "\\|").replace("<", "&lt;")
    return words if len(words) <= 110 else words[:107].rstrip() + "..."


def key(section: str, case: Case) -> str:
    """A row's name in verdicts.json."""
    return f"{section} {case.name}"


def render(verdicts: Verdicts) -> str:
    """The page."""
    parts = [HEAD]
    for section, cases in SECTIONS.items():
        parts.append(f"\n## {section}\n\n| request | {' | '.join(ROUTERS)} |\n|---|---|---|\n")
        for case in cases:
            cells = [verdicts[key(section, case)][router] for router in ROUTERS]
            parts.append(f"| {case.name} | {' | '.join(cells)} |\n")
    parts.append(OVERLOAD.format(**verdicts["overload"]))
    return "".join(parts)


def load() -> Verdicts:
    """The verdicts of the last recorded run."""
    found: Verdicts = json.loads(VERDICTS.read_text(encoding="utf-8"))
    return found


def store(verdicts: Verdicts) -> None:
    """Record a run and rewrite the page."""
    VERDICTS.write_text(json.dumps(verdicts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(render(verdicts), encoding="utf-8")
