"""What was checked, kept on the volume as it goes, by many threads."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

from dsv4_pd.plan.model import record as model_record
from dsv4_pd.plan.model.record import CheckedFiles
from dsv4_pd.run.download.store import Store


class Ledger:
    """The record of one model; a write that fails costs a reading at the next start, not this start."""

    def __init__(self, store: Store, state: Path) -> None:
        self._store, self._state = store, state
        self._turn = threading.Lock()
        self._record = model_record.read(store.base, state)

    def reread(self) -> None:
        """Another process may have checked meanwhile."""
        self._record = model_record.read(self._store.base, self._state)

    def holds(self, snapshot: Path) -> bool:
        """Whether a snapshot is whole and as it was when it was checked."""
        return self._record.holds(snapshot)

    def knows(self, path: Path) -> bool:
        """Whether a file is as it was when it was checked."""
        return self._record.knows(self._store.base, path)

    def note(self, path: Path) -> None:
        """A file was checked: an interruption later costs no second reading."""
        facts, key = model_record.facts_of(path), model_record.key_of(self._store.base, path)
        if facts and key:
            with self._turn:
                self._keep(CheckedFiles({**self._record.files, key: facts}, self._record.whole))

    def complete(self, snapshot: Path, names: tuple[str, ...]) -> None:
        """A commit is whole with these files."""
        with self._turn:
            self._keep(CheckedFiles(self._record.files, {**self._record.whole, snapshot.name: names}))

    def _keep(self, record: CheckedFiles) -> None:
        self._record = record
        with contextlib.suppress(OSError):
            model_record.write(self._store.base, self._state, record)
