"""Serve `n` as n requests.

The engine answers n > 1 by sending the prompt once without output, to fill the prefix cache, and then n times. A pair
gives each request a room in which its two servers meet; the engine knows fewer rooms than it sends requests, so servers
wait in rooms that nobody else enters. Here each prompt is repeated n times before the engine counts, and every copy
gets a room of its own. Both servers get the same body and do the same arithmetic, so the rooms match.
"""

from __future__ import annotations

from typing import Any

from dsv4_gate.rules import prompt_list, samples, sampling_list

ROOMS = 1 << 63  # rooms are random 63-bit numbers, from the router
ADDRESS = ("bootstrap_host", "bootstrap_port")


def spread(request: Any) -> None:
    """Turn `prompts` with n > 1 into `prompts x n` with n = 1, answers of a prompt side by side as the API wants."""
    parameters = sampling_list(request)
    n = samples(parameters[0]) if parameters else 1
    if n == 1:
        return
    prompts = prompt_list(request)
    field = "text" if request.text is not None else "input_ids"
    setattr(request, field, repeat(prompts, n))
    single = [{**each, "n": 1} for each in parameters]
    request.sampling_params = repeat(single, n) if isinstance(request.sampling_params, list) else single[0]
    request.bootstrap_room = rooms(request.bootstrap_room, len(prompts), n)
    for name in ADDRESS:
        value = getattr(request, name)
        if isinstance(value, list):
            setattr(request, name, addresses(value, len(prompts), n))
    if isinstance(request.rid, list):
        request.rid = [f"{rid}-{copy}" for rid in request.rid for copy in range(n)]


def repeat(items: list[Any], n: int) -> list[Any]:
    """Each item n times in a row.

    >>> repeat(["a", "b"], 2)
    ['a', 'a', 'b', 'b']
    """
    return [item for item in items for _ in range(n)]


def rooms(given: Any, prompts: int, n: int) -> list[int]:
    """A room for each of prompts x n requests. The router gives one room, one for each prompt, or one for each answer.

    >>> rooms(7, 2, 2), rooms([7, 70], 2, 2), rooms([1, 2, 3, 4], 2, 2)
    ([7, 8, 9, 10], [7, 8, 70, 71], [1, 2, 3, 4])
    """
    total = prompts * n
    if not isinstance(given, list):
        return [(given + step) % ROOMS for step in range(total)]
    if len(given) == total:
        return given
    if len(given) == prompts:
        return [(room + step) % ROOMS for room in given for step in range(n)]
    raise ValueError(f"bootstrap_room has {len(given)} entries, expected 1, {prompts} or {total}")


def addresses(given: list[Any], prompts: int, n: int) -> list[Any]:
    """Where to meet, for each of prompts x n requests.

    >>> addresses(["a"], 1, 3), addresses(["a", "a"], 1, 2)
    (['a', 'a', 'a'], ['a', 'a'])
    """
    return given if len(given) == prompts * n else repeat(given, n)
