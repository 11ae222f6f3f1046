"""With a key set, nobody is served without it."""

from __future__ import annotations

from dsv4_pd.verify import prompts
from dsv4_pd.verify.base import Result, Subject, failed, passed, skipped

REFUSED = (401, 403)


def check(subject: Subject) -> Result:
    """No key, a wrong key, the right key."""
    bare = subject.api.with_key(None).chat(prompts.GREETING, max_tokens=4)
    if subject.api.key is None:
        if bare.status in REFUSED:
            return failed(
                "the appliance requires a key and none was given", "give it with --api-key-file or DSV4_API_KEY"
            )
        return skipped("no key is set: anyone who can reach the port is served", "set DSV4_API_KEY_FILE")
    wrong = subject.api.with_key(subject.api.key + "x").chat(prompts.GREETING, max_tokens=4)
    right = subject.api.chat(prompts.GREETING, max_tokens=4)
    seen = {"none": bare.status, "wrong": wrong.status, "right": right.status}
    if bare.status not in REFUSED or wrong.status not in REFUSED:
        return failed(
            f"served without the right key: no key {bare.status}, wrong key {wrong.status}",
            "close the port, then see that DSV4_API_KEY reaches the router: dsv4-pd plan",
            **seen,
        )
    if right.status != 200:
        return failed(
            f"the right key is refused: {right.status} {right.error[:120]}", "router and servers must share it", **seen
        )
    return passed(f"no key {bare.status}, wrong key {wrong.status}, right key {right.status}", **seen)
