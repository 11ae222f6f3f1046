"""What the Hub has: the files of a revision with sizes and hashes, and one file's bytes, from where we are.

huggingface_hub speaks with the Hub (address, token, proxies, user agent); its own transfer starts every file from the
beginning after a break, which is why the bytes are read here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dsv4_pd.run.download import body, causes, classify
from dsv4_pd.run.download.body import Came
from dsv4_pd.run.download.causes import Asked, Failed
from dsv4_pd.run.download.listing import PATTERNS, Listing, RemoteFile, wanted


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

    def fetch(self, file: RemoteFile, commit: str, part: Path, came: Came) -> None:
        """Append what is missing to the part, through a fresh signed address; `came` is told how much is here by then.

        Raises:
            Failed: with the cause; what came stays.
        """
        part.parent.mkdir(parents=True, exist_ok=True)
        have = part.stat().st_size if part.exists() else 0
        if have > file.size:  # no beginning of this file, whoever wrote it
            part.unlink()
            have = 0
        if have == file.size:
            part.touch()  # an empty file is whole before anything came
            return
        headers = self._headers() | {"Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
        url = self._url(file.name, commit)
        try:
            session = self._hub.get_session()
            # The library's client leaves Authorization out where the Hub sends us to another host.
            with session.stream("GET", url, headers=headers, timeout=self._timeout, follow_redirects=True) as answer:
                body.append(answer, file, part, came, self._asked)
        except Exception as error:
            raise classify.of(error, self._asked) from error

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
