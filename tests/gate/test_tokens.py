"""Tokenizing beside the loop: the same result, while others are served."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest


async def test_a_long_text_leaves_the_loop_free() -> None:
    from dsv4_gate.tokens import aside

    places: list[str] = []

    async def work() -> list[int]:
        places.append(threading.current_thread().name)
        time.sleep(0.3)  # as Rust: holds its thread, not the interpreter
        return [1, 2]

    task = asyncio.create_task(aside(work, 1 << 20))
    turns = 0
    while not task.done():
        await asyncio.sleep(0.001)
        turns += 1
    assert await task == [1, 2]
    assert turns > 20
    assert places[0].startswith("tokenize-long")


async def test_a_short_text_takes_no_thread() -> None:
    from dsv4_gate.tokens import aside

    async def work() -> str:
        return threading.current_thread().name

    assert await aside(work, 10) == threading.current_thread().name
    assert (await aside(work, 5000)).startswith("tokenize-short")


async def test_errors_come_through() -> None:
    from dsv4_gate.tokens import aside

    async def work() -> None:
        raise ValueError("texts cannot be empty")

    with pytest.raises(ValueError, match="cannot be empty"):
        await aside(work, 5000)


async def test_long_texts_wait_for_each_other_and_short_ones_do_not() -> None:
    from dsv4_gate.tokens import LONG_AT_ONCE, aside

    running, most = 0, 0
    lock = threading.Lock()

    async def long() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.2)
        with lock:
            running -= 1

    async def short() -> float:
        return time.monotonic()

    tasks = [asyncio.create_task(aside(long, 1 << 20)) for _ in range(3 * LONG_AT_ONCE)]
    await asyncio.sleep(0.01)
    await aside(short, 5000)
    assert not all(task.done() for task in tasks), "the short one did not wait for the queue of long ones"
    await asyncio.gather(*tasks)
    assert most == LONG_AT_ONCE


def test_work_that_would_wait_is_a_fault_and_no_hang() -> None:
    from dsv4_gate.tokens import driven

    async def work() -> None:
        await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match="must run on the event loop"):
        driven(work)
