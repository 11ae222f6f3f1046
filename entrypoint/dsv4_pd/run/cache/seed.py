"""Kernels that the image brings compiled: put them where the engine's compilers look first."""

from __future__ import annotations

import contextlib
import errno
import shutil
import tempfile
from pathlib import Path

from dsv4_pd.run.cache import check, digests, triton_index
from dsv4_pd.run.cache.digests import Origin
from dsv4_pd.run.cache.judge import EntryState, judge
from dsv4_pd.run.cache.systems import OURS, Entry, entries

_TAKEN = {errno.EEXIST, errno.ENOTEMPTY, errno.EISDIR, errno.ENOTDIR}


def seed(prebuilt: Path, cache: Path, origin: Origin = "image") -> int:
    """Copy each entry that `cache` lacks from `prebuilt`, which is laid out alike; returns how many.

    An entry is named by a digest of source, compiler, options and card, so one of another image is never taken for
    ours; one that is not what the image build made is left out. Neither folder has to exist. An entry appears whole or
    not at all, also when two appliances look on.

    Raises:
        OSError: there is no room, or the folder can't be written.
    """
    missing = [entry for entry in entries(prebuilt) if not (cache / entry.relative).exists() and _sound(entry)]
    if not missing:
        return 0
    (cache / OURS).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache / OURS, prefix="seed-") as draft:
        return sum(place(entry, Path(draft) / str(number), cache, origin) for number, entry in enumerate(missing))


def _sound(entry: Entry) -> bool:
    return judge(entry, digests.read(entry.cache, entry.relative), 0.0, alone=True).outcome is EntryState.WHOLE


def place(source: Entry, draft: Path, cache: Path, origin: Origin) -> bool:
    """Copy one entry through a draft on the same file system; whether it is now there because of us."""
    home = Entry(source.system, cache, source.relative)
    if source.path.is_dir():
        shutil.copytree(source.path, draft)
    else:
        shutil.copy2(source.path, draft)
    if source.system.name == "triton":
        triton_index.rehome(draft, home.path)
    home.path.parent.mkdir(parents=True, exist_ok=True)
    try:
        draft.rename(home.path)
    except OSError as error:
        if error.errno not in _TAKEN:
            raise
        return False  # another appliance was quicker, with the same
    verdict = judge(home, None, 0.0, alone=True)
    if verdict.outcome is EntryState.WHOLE:
        known = digests.read(source.cache, source.relative)
        with contextlib.suppress(OSError):  # judged by its form next time
            check.seal(home, verdict, None, origin, known.seconds if known else None)
    return True
