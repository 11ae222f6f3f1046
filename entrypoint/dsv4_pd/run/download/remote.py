"""What the Hub has: the files of a revision with sizes and hashes, and one file's bytes, from where we are.

huggingface_hub speaks with the Hub (address, token, proxies, user agent); its own transfer starts every file from the
beginning after a break, which is why the bytes are read here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import httpx2

from dsv4_pd.run.download import causes, classify
from dsv4_pd.run.download.causes import Asked, Failed

# What a server reads; a repository may hold other formats of the same weights beside it.
PATTERNS = ("*.json", "*.safetensors", "tokenizer*", "*.txt", "*.jinja", "*.py", "encoding/*")
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file of a revision; its ETag is its hash: SHA-256 of a large file, git's SHA-1 of a small one."""

    name: str
    size: int
    etag: str


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of a revision that a server reads."""

    commit: str
    files: tuple[RemoteFile, ...]


def wanted(name: str) -> bool:
    """Whether a server reads a file of this name.

    >>> wanted("model-00001-of-00046.safetensors"), wanted("assets/figure.png")
    (True, False)
    """
    return any(fnmatch(name, pattern) for pattern in PATTERNS)


class Remote:
    """A model on the Hub, as one token sees it."""

    def __init__(self, asked: Asked, token: str | None) -> None:
        import huggingface_hub

        self._hub = huggingface_hub
        self._asked = asked
        self._token: str | bool = token or False

    def listing(self) -> Listing:
        """Ask for the files.

        Raises:
            Failed: with the cause.
        """
        try:
            info = self._hub.HfApi(token=self._token).model_info(
                self._asked.model, revision=self._asked.revision, files_metadata=True, timeout=self._timeout
            )
            found = [f for f in info.siblings or () if wanted(f.rfilename)]
            return Listing(str(info.sha), tuple(self._file(f, str(info.sha)) for f in found))
        except self._hub.errors.HFValidationError as error:
            raise Failed(causes.NO_MODEL, str(error)) from error
        except Exception as error:
            raise classify.of(error, self._asked) from error

    def _file(self, sibling: Any, commit: str) -> RemoteFile:
        """A file with its hash; a mirror that lists none is asked for each file's headers."""
        etag = sibling.lfs.sha256 if sibling.lfs else sibling.blob_id
        if etag and sibling.size is not None:
            return RemoteFile(sibling.rfilename, sibling.size, etag)
        about = self._hub.get_hf_file_metadata(self._url(sibling.rfilename, commit), token=self._token)
        if about.etag is None or about.size is None:
            raise Failed(causes.PORTAL, f"no size or hash of {sibling.rfilename}")
        return RemoteFile(sibling.rfilename, about.size, about.etag)

    def _url(self, name: str, commit: str) -> str:
        return str(self._hub.hf_hub_url(self._asked.model, name, revision=commit))

    def _headers(self) -> dict[str, str]:
        from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]  # said in its documentation

        return dict(build_hf_headers(token=self._token))

    @property
    def _timeout(self) -> float:
        """Seconds without a byte, by the library's own variable."""
        return float(self._hub.constants.HF_HUB_DOWNLOAD_TIMEOUT)

    def fetch(self, file: RemoteFile, commit: str, part: Path, came: Callable[[int], object]) -> None:
        """Append what is missing to the part, through a fresh signed address; `came` is told of every block.

        Raises:
            Failed: with the cause; what came stays.
        """
        part.parent.mkdir(parents=True, exist_ok=True)
        have = part.stat().st_size if part.exists() else 0
        if have == file.size:
            return
        headers = self._headers() | {"Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
        url = self._url(file.name, commit)
        try:
            session = self._hub.get_session()
            # The library's client leaves Authorization out where the Hub sends us to another host.
            with session.stream("GET", url, headers=headers, timeout=self._timeout, follow_redirects=True) as answer:
                self._append(answer, file, part, have, came)
        except Exception as error:
            raise classify.of(error, self._asked) from error

    def _append(
        self, answer: httpx2.Response, file: RemoteFile, part: Path, have: int, came: Callable[[int], object]
    ) -> None:
        start = self._start_of(answer, file, have)
        with part.open("r+b" if start else "wb") as out:
            out.seek(start)
            out.truncate()
            came(start - have)
            for block in answer.iter_bytes():  # as they come: what is collected is lost by a break
                out.write(block)
                came(len(block))
            out.flush()
            os.fsync(out.fileno())
        if (size := part.stat().st_size) != file.size:
            raise Failed(causes.CUT, f"{file.name}: {size} of {file.size} bytes")

    def _start_of(self, answer: httpx2.Response, file: RemoteFile, have: int) -> int:
        """Where in the file the answer's first byte belongs; nothing on the disk is touched before this is known."""
        if answer.status_code not in (200, 206):
            foreign = classify.elsewhere(answer.url, self._asked)
            raise classify.of_answer(answer.status_code, answer.headers, self._asked, foreign=foreign)
        start, total = 0, answer.headers.get("Content-Length")
        if answer.status_code == 206:
            match = _RANGE.fullmatch(answer.headers.get("Content-Range", ""))
            start, total = (int(match[1]), match[3]) if match else (-1, None)
        if start not in (0, have) or (total is not None and int(total) != file.size):
            kind = answer.headers.get("Content-Type", "no type")
            raise Failed(causes.PORTAL, f"{total or 'unknown'} bytes of {kind} for {file.name}, which has {file.size}")
        return start

    def link(self, commit: str, cache: Path) -> Path:
        """Let the library link the blobs that are here into the commit's snapshot; returns its folder.

        By the commit: a branch may have moved on meanwhile, and the library would fetch what it leads to now.

        Raises:
            Failed: with the cause.
        """
        try:
            done = self._hub.snapshot_download(
                self._asked.model, revision=commit, cache_dir=cache, allow_patterns=list(PATTERNS), token=self._token
            )
        except Exception as error:
            raise classify.of(error, self._asked) from error
        return Path(done)
