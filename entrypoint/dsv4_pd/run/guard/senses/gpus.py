"""GPUs while the appliance runs: are they still there, and who holds their memory. Through the bounded reader."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dsv4_pd.host import xids
from dsv4_pd.host.nvml_causes import explained
from dsv4_pd.host.nvml_reader import Ended, Reader, Silent

FREE_BYTES = 2 * 1024**3  # what a driver, a display or a monitoring tool may hold
DEADLINE_S = 30.0  # for one reading; a second process is asked before a card is called lost
_TRIES = 2
_ENDS = 5  # readers that ended in a row: the library itself is broken


class CardErrors:
    """Errors that the driver reported (Xid) since this guard began, by card."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[int, int]] = {}
        self._last: dict[str, tuple[float, str]] = {}
        self._broken: dict[str, str] = {}

    def add(self, events: Iterable[Mapping[str, Any]], now: float) -> None:
        """What one reading brought."""
        for event in events:
            uuid, number = str(event["uuid"]), int(event["xid"])
            counts = self._counts.setdefault(uuid, {})
            counts[number] = counts.get(number, 0) + 1
            self._last[uuid] = (now, xids.told(uuid, number))
            if xids.broken(number):
                self._broken.setdefault(uuid, f"{xids.told(uuid, number)}; {xids.RESET}")

    def counted(self, uuid: str) -> dict[str, Any]:
        """`xids`: number -> how often; nothing where there was none."""
        found = self._counts.get(uuid)
        return {"xids": {str(number): count for number, count in sorted(found.items())}} if found else {}

    def last(self, uuids: Sequence[str]) -> tuple[float, str]:
        """When the newest error of these cards was seen, and which."""
        return max((self._last[uuid] for uuid in uuids if uuid in self._last), default=(0.0, ""))

    def broken(self, uuids: Sequence[str]) -> str:
        """The first error of these cards that only a reset fixes; empty where there was none."""
        return next((self._broken[uuid] for uuid in uuids if uuid in self._broken), "")


class Gpus:
    """The last reading of the planned GPUs; does nothing where there are none."""

    def __init__(self, uuids: Sequence[str], deadline: float = DEADLINE_S, in_container: bool = True) -> None:
        self._uuids, self._deadline = tuple(dict.fromkeys(uuids)), deadline
        self._inside = in_container  # what to do differs
        self._reader: Reader | None = None
        self._cards: dict[str, dict[str, Any]] = {}
        self._lost: str | None = None
        self._ended = 0
        self._over = False
        self._turn = asyncio.Lock()
        self.errors = CardErrors()

    async def read(self) -> None:
        """Ask all cards once, each with one call; who asks meanwhile waits for the same answer's end."""
        async with self._turn:
            if self._uuids and self._lost is None:
                await asyncio.to_thread(self._read)

    def lost(self) -> str | None:
        """Why GPUs can't be used any more, each of them, in NVML's words; None while all are well.

        After `systemctl daemon-reload` on the host NVML says "Unknown Error": only a new container helps.
        """
        which: dict[tuple[str, int | None], list[str]] = {}
        for uuid, card in self._cards.items():
            if "error" in card:
                which.setdefault((card["error"], card.get("error_code")), []).append(uuid)
        said = [self._gone(uuids, *why) for why, uuids in which.items()]
        return "; ".join(said) or self._lost

    def _gone(self, which: Sequence[str], words: str, code: int | None = None) -> str:
        read, remedy = explained(words, self._inside, code)
        verb = "is" if len(which) == 1 else "are"
        return f"GPU {', '.join(which)} {verb} lost (NVML: {read}); {remedy}"

    def holder(self, uuids: Sequence[str]) -> str | None:
        """Who holds memory on GPUs whose server is down; None when they are free. A lost GPU is `lost`'s to report."""
        for uuid in uuids:
            card = self._cards.get(uuid, {})
            if card.get("used", 0) > FREE_BYTES:
                names = ", ".join(map(str, card["pids"]))
                who = f"process {names}" if names else "a process outside this container"
                return f"GPU {uuid}: {card['used'] / 1e9:.1f} GB still held by {who}; end it, or choose other GPUs"
        return None

    def broken(self, uuids: Sequence[str]) -> str:
        """Why one of these cards computes nothing right until it is reset or replaced; empty where there is nothing."""
        failed = (uuid for uuid in uuids if self._cards.get(uuid, {}).get("health", {}).get("rows_failed"))
        return self.errors.broken(uuids) or next((xids.rows_failed(uuid) for uuid in failed), "")

    def memory(self, uuids: Sequence[str]) -> list[dict[str, Any]]:
        """Each GPU that answered: used and total memory in bytes, and in GB for people; power, heat, load, errors."""
        found = [(uuid, self._cards.get(uuid, {})) for uuid in uuids]
        return [
            {
                "uuid": uuid,
                "used_bytes": card["used"],
                "total_bytes": card["total"],
                "used_gb": round(card["used"] / 1e9, 1),
                "total_gb": round(card["total"] / 1e9, 1),
                **card.get("health", {}),
                **self.errors.counted(uuid),
            }
            for uuid, card in found
            if "used" in card
        ]

    def end(self) -> None:
        """For good, from another thread: whoever waits for an answer stops waiting."""
        self._over = True
        self._close()

    def _close(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _read(self) -> None:
        """In a thread. A reader that was killed or stopped says nothing of the cards: the next one is asked."""
        for attempt in range(_TRIES):
            if self._over:
                return
            try:
                reader = self._reader = self._reader or Reader(("--watch", *self._uuids))
                answer = reader.ask(self._deadline)
                self._cards = answer["cards"]
                self.errors.add(answer.get("events", ()), time.monotonic())
                self._ended = 0
                return
            except Silent as error:
                self._close()
                if attempt + 1 == _TRIES and not error.stopped:
                    name = str(error.asking)
                    name = name if name.startswith("GPU-") else f"{len(self._uuids)} in the plan"
                    self._lost = self._gone([name], str(error))
            except (Ended, KeyError, TypeError, ValueError) as error:  # the last: it was closed under us
                self._close()
                self._ended += 1
                if self._ended >= _ENDS:
                    self._lost = self._gone(self._uuids, str(error))
