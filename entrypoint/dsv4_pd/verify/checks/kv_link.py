"""The KV cache really crosses from prefill to decode, and how fast."""

from __future__ import annotations

import time
from functools import partial

from dsv4_pd.client.ops import by_role
from dsv4_pd.run.ops.exposition import Sample
from dsv4_pd.run.ops.kv_link import link_of
from dsv4_pd.verify import prompts
from dsv4_pd.verify.base import Result, Subject, failed, passed, skipped

SLOW = 1e9  # bytes/s; UCX without peer access, or with expandable segments, falls to 0.3e9
WORDS = {False: 600, True: 12000}  # on GPUs: so that the transfer, and not its start, takes the time


def check(subject: Subject) -> Result:
    """The engines' own counters before and after a fresh prompt."""
    status = subject.status
    if status.get("mode") != "pd":
        return skipped("whole servers hand nothing over: no link")
    gpus = bool(((status.get("about") or {}).get("machine") or {}).get("gpus"))
    before = subject.ops.samples()
    reply = subject.api.chat(prompts.filler(WORDS[gpus], time.time_ns()), max_tokens=4)
    if reply.status != 200:
        return failed(f"the request failed: {reply.status} {reply.error[:200]}", "dsv4-pd status names the hop")
    after = _settled(subject, before)
    return judge(before, after, int(reply.usage.get("prompt_tokens", 0)), gpus=gpus)


def judge(before: list[Sample], after: list[Sample], prompt_tokens: int, *, gpus: bool) -> Result:
    """The verdict on two readings around one request."""
    count, moved = (_delta(before, after, f"dsv4_kv_link_{name}_total") for name in ("transfers", "bytes"))
    if count < 1 or moved <= 0:
        return failed(
            "a request was answered, yet no KV transfer was counted",
            "the request did not take the PD path: see the router's --prefill/--decode lines in dsv4-pd plan",
        )
    speed = link_of(partial(_delta, before, after)).bytes_per_s or 0.0
    details = {"transfers": count, "bytes": moved, "prompt_tokens": prompt_tokens, "bytes_per_s": round(speed)}
    where = "GPU" if gpus else "host"
    told = f"NIXL moved {moved / 1e6:.2f} MB of {where} memory for {prompt_tokens} tokens, at {speed / 1e9:.3f} GB/s"
    if gpus and speed < SLOW:
        return failed(
            f"{told}: below {SLOW / 1e9:.0f} GB/s",
            "dsv4-pd doctor measures the link and names the transport; unset PYTORCH_CUDA_ALLOC_CONF and UCX_TLS",
            **details,
        )
    return passed(told, **details, counted_by=sorted(by_role(after, "sglang:kv_transfer_total_mb_count")))


def _settled(subject: Subject, before: list[Sample]) -> list[Sample]:
    """Read until the counters have moved: the engines add to them a moment after the answer."""
    for _ in range(10):
        time.sleep(1.0)  # the ops port itself reads the engines at most once a second
        after = subject.ops.samples()
        if _delta(before, after, "dsv4_kv_link_transfers_total") > 0:
            break
    return after


def _delta(before: list[Sample], after: list[Sample], name: str) -> float:
    return sum(s.value for s in after if s.name == name) - sum(s.value for s in before if s.name == name)
