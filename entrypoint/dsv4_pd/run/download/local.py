"""Whether a model in the cache is whole, without asking anybody: another tool fetched it, or it was carried here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dsv4_pd.plan.model.files import inspect
from dsv4_pd.run.download.ledger import Ledger
from dsv4_pd.run.download.listing import wanted
from dsv4_pd.run.download.progress import Progress
from dsv4_pd.run.download.store import Store, by_name

Sound = Callable[[Path, str], bool]


def whole(snapshot: Path, store: Store, ledger: Ledger, progress: Progress, sound: Sound) -> bool:
    """Whole by its index and by the library's own list, and each file what its name in the cache says.

    `sound(path, hash)` compares a file. What is known by then is noted.
    """
    if inspect(snapshot).problems or not listed(snapshot, store):
        return False
    files = [path for path in sorted(snapshot.rglob("*")) if path.is_file()]
    total = sum(path.stat().st_size for path in files)
    progress.expect(total, total)
    progress.enter("checking")
    for path in files:
        promised = None if ledger.knows(path) else by_name(path)
        if promised is None:
            progress.checked(path.stat().st_size)
        elif not sound(path, promised):
            return False
        ledger.note(path)
    ledger.complete(snapshot, tuple(str(path.relative_to(snapshot)) for path in files))
    return True


def listed(snapshot: Path, store: Store) -> bool:
    """Whether every file is here that the library's list of the commit names; true where it keeps no list."""
    from huggingface_hub import errors, get_cached_repo_tree

    try:
        tree = get_cached_repo_tree(store.model, revision=snapshot.name, cache_dir=store.cache)
    except (errors.CachedRepoTreeNotFoundError, errors.HFValidationError, OSError, ValueError, KeyError, TypeError):
        return True
    return all((snapshot / file.path).is_file() for file in tree if wanted(file.path))
