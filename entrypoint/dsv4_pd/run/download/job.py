"""One download, from the question to the record of what was checked: every step can be interrupted and repeated."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from dsv4_pd.errors import SettingsError
from dsv4_pd.plan.around.ahead import Ahead
from dsv4_pd.plan.disk import json_file
from dsv4_pd.plan.disk.folders import free_below
from dsv4_pd.plan.model import config as model_config
from dsv4_pd.plan.model.files import inspect
from dsv4_pd.plan.model.shards import INDEX, total_of
from dsv4_pd.run.download import causes, classify, local
from dsv4_pd.run.download.causes import Asked, Failed
from dsv4_pd.run.download.ledger import Ledger
from dsv4_pd.run.download.listing import Listing, RemoteFile
from dsv4_pd.run.download.patience import TICK_S, Patience
from dsv4_pd.run.download.progress import Progress, Tally
from dsv4_pd.run.download.remote import Remote
from dsv4_pd.run.download.store import Lock, Store, digest

_MARGIN, _LEAST_MARGIN = 2 << 30, 16 << 20  # bytes that stay free
_WORKERS = 8
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Task:
    """What to bring where."""

    asked: Asked
    store: Store
    state: Path
    stall_s: float  # longest time without a new byte
    here: Path | None = None  # the snapshot that the cache has by now
    offline: str | None = None  # the switch that forbids to ask the Hub


class Job:
    """Runs a task once, with threads of its own; `progress` is read by others meanwhile."""

    def __init__(self, task: Task, remote: Callable[[], Remote], progress: Progress) -> None:
        self._task, self._remote_of, self.progress = task, remote, progress
        self._store = task.store
        self._patience = Patience(task.asked, task.stall_s, progress)
        self._lock = Lock(task.store)
        self._ledger = Ledger(task.store, task.state)

    def stop(self) -> None:
        """End soon; what is there stays."""
        self._patience.stop()

    def run(self) -> Path:
        """The whole model's folder.

        Raises:
            Failed: with the cause. SettingsError: of the way to the Hub. Stopped: by `stop`.
        """
        return self._told(self._run)

    def look(self) -> Ahead:
        """What the Hub tells of the model: its config.json, which comes first, and how much its weights are.

        Raises:
            Failed: with the cause. SettingsError: of the way to the Hub. Stopped: by `stop`.
        """
        return self._told(self._look)

    def _told(self, act: Callable[[], T]) -> T:
        """Every error with its cause; the turn is given on at the end."""
        try:
            return act()
        except SettingsError:
            raise
        except Exception as error:  # of the disk, or unforeseen: told in one line as well
            raise classify.of(error, self._task.asked) from error
        finally:
            self._lock.release()

    def _look(self) -> Ahead:
        if self._task.offline:
            raise Failed(causes.OFFLINE, self._task.offline)
        self._take_turn()
        self.progress.enter("asking")
        remote = self._remote_of()
        listing = self._patience.again(remote.listing)
        by_name = {file.name: file for file in listing.files}
        config, index = (self._small(remote, by_name.get(name), listing.commit) for name in ("config.json", INDEX))
        if found := model_config.problems(config or {}):
            raise Failed(causes.NOT_WHOLE, "; ".join(found[:3]))
        return Ahead(total_of({file.name: file.size for file in listing.files}, index), config)

    def _small(self, remote: Remote, file: RemoteFile | None, commit: str) -> dict[str, Any] | None:
        """A JSON object of the repository, kept in the cache; None where it has none."""
        if file is None:
            return None
        self._store.clear(file.etag, file.size)
        self._one(remote, file, commit)
        try:
            data = json_file.read(self._store.blob(file.etag))
        except ValueError as error:
            raise Failed(causes.NOT_WHOLE, f"{file.name} is no JSON") from error
        return data if isinstance(data, dict) else None

    def _run(self) -> Path:
        here = self._task.here
        if here is not None and (self._ledger.holds(here) or self._whole(here)):
            return here
        if self._task.offline:
            raise Failed(causes.OFFLINE, self._task.offline)
        self._take_turn()
        return self._bring()

    def _whole(self, here: Path) -> bool:
        return local.whole(here, self._store, self._ledger, self.progress, self._sound)

    def _take_turn(self) -> None:
        """Wait while another process fetches; its progress is ours, and so is its stall."""
        self.progress.enter("waiting")
        while not self._lock.take():
            told = self._lock.told()
            who = f"process {told.get('pid', '?')} on {told.get('host', '?')}"
            self.progress.report(told.get("total"), int(told.get("fetched", 0)), int(told.get("checked", 0)))
            self.progress.say(who)
            if self.progress.still_s > self._task.stall_s:
                raise Failed(causes.OTHER_STUCK, who, stalled_s=self._task.stall_s)
            self._patience.pause()
        self._ledger.reread()

    def _bring(self) -> Path:
        self.progress.enter("asking")
        self._store.sweep()
        remote = self._remote_of()
        listing = self._patience.again(remote.listing)
        if not listing.files:
            raise Failed(causes.NOT_WHOLE, "no file that a server reads")
        self._require_room(listing)
        self._all_files(remote, listing)
        self.progress.enter("linking")
        folder = self._patience.again(lambda: remote.link(listing.commit, self._store.cache))
        self._finish(folder, listing)
        return folder

    def _require_room(self, listing: Listing) -> None:
        """Ask for the disk's space first; two names of one file need it once."""
        sizes = {file.etag: file.size for file in listing.files}
        for etag, size in sizes.items():
            self._store.clear(etag, size)
        have = sum(self._store.have(etag, size) for etag, size in sizes.items())
        missing = sum(sizes.values()) - have
        self.progress.expect(sum(sizes.values()), have)
        free = free_below(self._store.cache)
        needed = missing + min(_MARGIN, max(missing // 20, _LEAST_MARGIN))
        if missing and free is not None and free < needed:
            raise Failed(causes.NO_ROOM, f"{free / 1e9:.2f} GB free, {needed / 1e9:.2f} GB needed")

    def _all_files(self, remote: Remote, listing: Listing) -> None:
        """Every file whole and checked; large ones first, so that none is alone at the end."""
        self.progress.enter("fetching")
        files = sorted({file.etag: file for file in listing.files}.values(), key=lambda file: -file.size)
        with ThreadPoolExecutor(_WORKERS, thread_name_prefix="download") as pool:
            pending = {pool.submit(self._one, remote, file, listing.commit) for file in files}
            try:
                while pending:
                    done, pending = wait(pending, timeout=TICK_S, return_when=FIRST_EXCEPTION)
                    for future in done:
                        future.result()
                    snapshot = self.progress.snapshot()
                    self._lock.tell(snapshot.total, snapshot.fetched, snapshot.checked)
                    self._patience.checkpoint()
            except BaseException:
                self._patience.stop()
                for future in pending:
                    future.cancel()
                raise

    def _one(self, remote: Remote, file: RemoteFile, commit: str) -> None:
        """One blob: fetched until it is all there, compared with its hash, then given its name."""
        blob, part = self._store.blob(file.etag), self._store.part(file.etag)
        if self._ledger.knows(blob) and blob.stat().st_size == file.size:
            self.progress.checked(file.size)
            return
        if blob.exists():  # by another tool, or before an interruption
            if self._is_file(blob, file):
                self._ledger.note(blob)
                return
            self._drop(blob)
        for _ in range(2):
            tally = Tally(self.progress, self._store.have(file.etag, file.size))
            self._patience.again(partial(remote.fetch, file, commit, part, self._counted(tally)))
            if self._is_file(part, file):
                part.replace(blob)
                self._ledger.note(blob)
                return
            self._drop(part)
        raise Failed(causes.DAMAGED, f"{file.name}, fetched twice, is not what its hash says")

    def _counted(self, tally: Tally) -> Callable[[int], object]:
        """Called for every block, so that an end is soon heard."""

        def came(size: int) -> None:
            tally(size)
            self._patience.checkpoint()

        return came

    def _drop(self, path: Path) -> None:
        """A damaged file is fetched again."""
        self.progress.fetched(-path.stat().st_size)
        path.unlink()

    def _is_file(self, path: Path, file: RemoteFile) -> bool:
        return path.stat().st_size == file.size and self._sound(path, file.etag)

    def _sound(self, path: Path, etag: str) -> bool:
        """Whether a file is what its ETag says; a mirror's own kind of ETag says nothing."""
        return len(etag) not in (40, 64) or digest(path, etag, self._seen) == etag

    def _seen(self, count: int) -> None:
        self.progress.checked(count)
        self._patience.checkpoint()

    def _finish(self, folder: Path, listing: Listing) -> None:
        """The folder is what its index promises; only now the revision's name leads to it."""
        if problems := inspect(folder).problems:
            raise Failed(causes.NOT_WHOLE, "; ".join(problems[:3]))
        for file in listing.files:
            if not self._ledger.knows(folder / file.name):  # a volume without links: the library made a copy
                self._ledger.note(folder / file.name)
        self._ledger.complete(folder, tuple(file.name for file in listing.files))
        if (name := self._task.asked.revision) != listing.commit:
            _write(self._store.base / "refs" / name, listing.commit)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    fresh.write_text(text, encoding="ascii")
    fresh.replace(path)
