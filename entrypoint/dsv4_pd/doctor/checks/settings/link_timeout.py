"""DSV4_LINK_TIMEOUT must outlast the prefill of the longest prompt."""

from __future__ import annotations

import math

from dsv4_pd.doctor.base import Check, Finding, ok, skip, warn
from dsv4_pd.plan.situation import Situation

# Tokens/s of a long prompt beside others: a seventh of what is published for one of 32k alone on two of these cards
# (config/bars.toml), because attention's share grows with the prompt and a batch shares the cards.
SLOWEST = 2_000


def _run(s: Situation) -> Finding:
    if s.placement is None:
        return skip("there is no plan")
    if s.placement.mode != "pd":
        return skip("no prompt waits for another server")
    longest = s.settings.context_length / SLOWEST
    read = (
        f"{s.settings.link_timeout:.0f} s; a prompt of {s.settings.context_length:,} tokens takes {longest:.0f} s at "
        f"{SLOWEST:,} tokens/s"
    )
    if s.settings.link_timeout >= longest:
        return ok(read)
    return warn(read, f"set DSV4_LINK_TIMEOUT={math.ceil(longest)} or more, or a lower DSV4_CONTEXT_LENGTH")


CHECK = Check(
    name="link-timeout",
    place=25,
    symptom="the longest prompts fail with a 503 of the link, short ones never",
    why="The engine's clock for a request begins when it is sent, so prefill's queue and computing run on it.",
    source="SGLang 0.5.23 disaggregation/common/conn.py (SGLANG_DISAGGREGATION_WAITING_TIMEOUT)",
    run=_run,
    expected="a time-out that the longest prompt's prefill fits in",
    fatal=False,
    gpu_only=True,
)
