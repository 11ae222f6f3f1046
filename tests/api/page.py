"""docs/api.md from the verdicts of the conformance run."""

from __future__ import annotations

import json
import re
from pathlib import Path

from api.case import Case
from api.cases import SECTIONS
from api.checks import reason
from api.client import HANGS, Answer

ROOT = Path(__file__).resolve().parents[2]
VERDICTS = Path(__file__).with_name("verdicts.json")
PAGE = ROOT / "docs" / "api.md"
DEFAULT, OTHERS = "smg", "sglang-router"
Verdicts = dict[str, dict[str, str]]  # section/request -> router -> verdict

HEAD = """# What the API serves

Written by the conformance run (`make api`): every row was sent to the real prefill/decode pair on the CPU, through
the front and both routers, and the run fails when an answer differs from this page. SGLang 0.5.23, smg 1.13.0,
sglang-router 0.3.2. The page describes the API, not the model. The answers are those of the default settings; what
`DSV4_ROUTER=sglang-router` changes stands at the end.

* Nothing here hangs. What a pair cannot serve is refused by both servers at once, in the engine's own request path, by
  the plugin `dsv4-gate` ([ADR 0601](adr/0601-the-gate-is-in-the-engine.md)). The guard reads its record before READY.
* What costs much is refused before it costs ([ADR 0604](adr/0604-what-costs-much-is-refused.md)): a body above 16 bytes
  for each token of the context (at least 1 MiB); a prompt that can't fit, before it is tokenized; grammars that cannot
  end, that fit one text in many ways, or that are too large (128 KiB, 100 levels); more than 1,024 entries of
  `logit_bias`, `stop_token_ids` or `token_ids_logprob`; more than 4,096 bytes of `stop`. `stop_regex` is off.
* An error's body says what is wrong with the request, and nothing of the engine's files and modules.
* `n` is served as n requests; prompts x n may not exceed `DSV4_MAX_RUNNING_REQUESTS` in one request.
* Only the routes of this page exist, the router's administration never. Errors are JSON in the form of the API that was
  asked (OpenAI, Anthropic), also where the answer was to be streamed, and every answer has an `x-request-id`.
* While nothing is served: 503 with `Retry-After` and the reason. `/health`, `/readyz` and `/livez` tell it without a
  key, as the ops port does.
* Clients that leave are noticed: both servers drop the request within seconds (tested through both routers, streaming
  and not, before and after the first token).
"""
OVERLOAD = """
## Overload

| | |
|---|---|
| let in at once | `DSV4_MAX_CONCURRENT_REQUESTS` answers, exactly: `n: 4` counts as four |
| more than that | wait in the front: `DSV4_QUEUE_SIZE` requests, 60 s each, then 503 with `Retry-After` |
| more than the queue | at once {smg}; `Retry-After` is the measured time until a slot is free |
| a client that leaves | its slot is free at once, in the queue or in the middle of an answer |
| admitted, and decode is full for longer than `DSV4_LINK_TIMEOUT` | 503 with the reason |

The same with either router ([ADR 0606](adr/0606-one-front-door.md)).
"""
FORM = """
## The form of answers

Every answer of the run is held against its form as well: the content type, the JSON of errors, the order of a stream's
events, and [OpenAI's published schema](../tests/api/openai/README.md). Here the answers depart from the schema:

| place | why |
|---|---|
"""
OTHER = """
## With `DSV4_ROUTER=sglang-router`

It drops fields that it does not know, so that the engine never sees them, and has no other routes than OpenAI's chat
and completions and the engine's own. These rows differ:

| request | answer |
|---|---|
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
        parts.append(f"\n## {section}\n\n| request | answer |\n|---|---|\n")
        parts += [f"| {case.name} | {verdicts[key(section, case)][DEFAULT]} |\n" for case in cases]
    parts.append(FORM + "".join(f"| `{place}` | {why} |\n" for place, why in verdicts["form"].items()))
    parts.append(OVERLOAD.format(**verdicts["overload"]))
    parts.append(OTHER)
    for section, cases in SECTIONS.items():
        parts += _other(section, [(case, verdicts[key(section, case)]) for case in cases])
    return "".join(parts)


def _other(section: str, rows: list[tuple[Case, dict[str, str]]]) -> list[str]:
    """The rows that differ through sglang-router; one line where it answers a whole section the same."""
    words = {cells[OTHERS] for _, cells in rows}
    if len(rows) > 1 and len(words) == 1:
        return [f"| {section}: every row | {words.pop()} |\n"]
    differing = [(case.name, cells[OTHERS]) for case, cells in rows if cells[OTHERS] != cells[DEFAULT]]
    where = f"{section}: " if "/v1/" in section or section.startswith("/") else ""
    return [f"| {where}{name} | {answer} |\n" for name, answer in differing]


def load() -> Verdicts:
    """The verdicts of the last recorded run."""
    found: Verdicts = json.loads(VERDICTS.read_text(encoding="utf-8"))
    return found


def store(verdicts: Verdicts) -> None:
    """Record a run and rewrite the page."""
    VERDICTS.write_text(json.dumps(verdicts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(render(verdicts), encoding="utf-8")
