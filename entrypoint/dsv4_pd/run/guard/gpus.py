"""GPUs while the appliance runs: are they still there, and who holds their memory. Through the bounded reader."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from dsv4_pd.host.nvml_causes import explained
from dsv4_pd.host.nvml_reader import Ended, Reader, Silent

FREE_BYTES = 2 * 1024**3  # what a driver, a display or a monitoring tool may hold
DEADLINE_S = 30.0  # for one reading; a second process is asked before a card is called lost
_TRIES = 2
_ENDS = 5  # readers that ended in a row: the library itself is broken


class Gpus:
    """The last reading of the planned GPUs; does nothing where there are none."""

    def __init__(self, uuids: Sequence[str], deadline: float = DEADLINE_S) -> None:
        self._uuids, self._deadline = tuple(dict.fromkeys(uuids)), deadline
        self._reader: Reader | None = None
        self._cards: dict[str, dict[str, Any]] = {}
        self._lost: str | None = None
        self._ended = 0
        self._over = False
        self._turn = asyncio.Lock()

    async def read(self) -> None:
        """Ask all cards once, each with one call; who asks meanwhile waits for the same answer's end."""
        async with self._turn:
            if self._uuids and self._lost is None:
                await asyncio.to_thread(self._read)

    def lost(self) -> str | None:
        """Why a GPU can't be used any more, in NVML's words; None while all are well.

        After `systemctl daemon-reload` on the host NVML says "Unknown Error": only a new container helps.
        """
        for uuid, card in self._cards.items():
            if "error" in card:
                return _lost(f"GPU {uuid}", card["error"])
        return self._lost

    def holder(self, uuids: Sequence[str]) -> str | None:
        """Who holds memory on GPUs whose server is down; None when they are free. A lost GPU is `lost`'s to report."""
        for uuid in uuids:
            card = self._cards.get(uuid, {})
            if card.get("used", 0) > FREE_BYTES:
                names = ", ".join(map(str, card["pids"]))
                who = f"process {names}" if names else "a process outside this container"
                return f"GPU {uuid}: {card['used'] / 1e9:.1f} GB still held by {who}; end it, or choose other GPUs"
        return None

    def memory(self, uuids: Sequence[str]) -> list[dict[str, float | int | str]]:
        """Used and total memory of each GPU that answered: bytes, and GB for people."""
        found = [(uuid, self._cards.get(uuid, {})) for uuid in uuids]
        return [
            {
                "uuid": uuid,
                "used_bytes": card["used"],
                "total_bytes": card["total"],
                "used_gb": round(card["used"] / 1e9, 1),
                "total_gb": round(card["total"] / 1e9, 1),
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
                self._cards = reader.ask(self._deadline)["cards"]
                self._ended = 0
                return
            except Silent as error:
                self._close()
                if attempt + 1 == _TRIES and not error.stopped:
                    name = error.asking if str(error.asking).startswith("GPU-") else f"{len(self._uuids)} in the plan"
                    self._lost = _lost(f"GPU {name}", str(error))
            except (Ended, KeyError, TypeError, ValueError) as error:  # the last: it was closed under us
                self._close()
                self._ended += 1
                if self._ended >= _ENDS:
                    self._lost = _lost(f"GPU {', '.join(self._uuids)}", str(error))


def _lost(which: str, words: str) -> str:
    read, remedy = explained(words, in_container=True)
    return f"{which} is lost (NVML: {read}); {remedy}"
