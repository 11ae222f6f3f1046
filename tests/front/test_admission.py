"""The queue at the door, without sockets: exact whatever leaves when."""

from __future__ import annotations

import asyncio
import random

import pytest
from dsv4_pd.run.front.admission import Admission
from dsv4_pd.run.front.errors import Refusal


async def hold(admission: Admission, slots: int, seconds: float, order: list[int], number: int) -> None:
    async with admission.slots(slots):
        order.append(number)
        assert admission.used <= admission.limit
        await asyncio.sleep(seconds)


async def test_first_come_first_served() -> None:
    admission = Admission(1, 10, 60)
    order: list[int] = []
    await asyncio.gather(*(hold(admission, 1, 0.001, order, number) for number in range(8)))
    assert order == list(range(8))
    assert (admission.used, len(admission.waiting)) == (0, 0)


async def test_a_large_request_is_not_passed_over() -> None:
    admission = Admission(2, 10, 60)
    order: list[int] = []
    wanted = [(2, 0.01), (2, 0.01), (1, 0.0), (1, 0.0)]
    await asyncio.gather(*(hold(admission, slots, s, order, number) for number, (slots, s) in enumerate(wanted)))
    assert order[:2] == [0, 1]


async def test_more_than_there_are_is_what_there_is() -> None:
    admission = Admission(2, 10, 60)
    order: list[int] = []
    await asyncio.wait_for(hold(admission, 99, 0, order, 0), 10)
    assert admission.used == 0


@pytest.mark.parametrize("seed", range(5))
async def test_whatever_leaves_when_no_slot_is_lost(seed: int) -> None:
    chance = random.Random(seed)
    admission = Admission(4, 1000, 0.05)
    order: list[int] = []
    tasks = []
    for number in range(200):
        tasks.append(
            asyncio.create_task(hold(admission, chance.choice([1, 1, 2, 4]), chance.random() / 100, order, number))
        )
        for task in chance.sample(tasks, min(len(tasks), chance.choice([0, 1, 3]))):
            task.cancel()
        if chance.random() < 0.5:
            await asyncio.sleep(0)
        assert 0 <= admission.used <= 4
    found = await asyncio.gather(*tasks, return_exceptions=True)
    odd = [one for one in found if isinstance(one, BaseException)]
    assert all(isinstance(one, asyncio.CancelledError | Refusal) for one in odd), odd
    assert (admission.used, len(admission.waiting)) == (0, 0)


async def test_cancelled_and_called_in_one_turn() -> None:
    admission = Admission(1, 10, 60)
    order: list[int] = []
    first = asyncio.create_task(hold(admission, 1, 60, order, 0))
    waiting = [asyncio.create_task(hold(admission, 1, 0, order, number)) for number in (1, 2, 3)]
    await asyncio.sleep(0.01)
    for task in (waiting[0], first, waiting[1]):
        task.cancel()
    await asyncio.wait([first, *waiting], timeout=10)
    assert order == [0, 3]
    assert admission.used == 0


async def test_one_that_does_not_wait_is_refused_at_once_and_takes_no_place() -> None:
    """The guard's request: behind others it would prove nothing, and its time-out would look like a broken path."""
    admission = Admission(1, 10, 60)
    async with admission.slots(1):
        with pytest.raises(Refusal) as refused:
            async with admission.slots(1, waits=False):
                pass
        assert (refused.value.status, len(admission.waiting)) == (429, 0)
    async with admission.slots(1, waits=False):
        assert admission.used == 1
