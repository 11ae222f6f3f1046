"""The keys that are valid now. A file of keys is read again when it changes; a broken one leaves the last good one."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from dsv4_pd.plan.front import client_keys as keys
from dsv4_pd.plan.front.client_keys import Key, KeysError
from dsv4_pd.plan.front.config import FrontConfig
from dsv4_pd.run.front.errors import Refusal

LOOK_S = 1.0
log = logging.getLogger("dsv4_pd.run.front")


class Keyring:
    """Raises KeysError where the first reading fails: a door without its keys does not open."""

    def __init__(self, config: FrontConfig) -> None:
        self._fixed = tuple(
            keys.of_secret(name, _secret(path))
            for name, path in ((keys.DEFAULT, config.key_file), (keys.GUARD, config.guard_key_file))
            if path is not None
        )
        self._path = Path(config.keys_file) if config.keys_file else None
        self._named = keys.load(self._path) if self._path else ()
        self._seen = self._stamp()
        self.open = config.key_file is None and self._path is None
        self.failed: str | None = None

    @property
    def named(self) -> int:
        """How many keys the file has."""
        return len(self._named)

    def find(self, secret: str | None) -> Key:
        """Whose key it is; raises Refusal 401."""
        found = keys.find(secret, (*self._fixed, *self._named)) if secret is not None else None
        if found is not None:
            return found
        if self.open:
            return Key(keys.ANYONE, b"")
        if secret is None:
            raise Refusal(401, "No API key: send it as 'Authorization: Bearer KEY', or as 'x-api-key: KEY'")
        raise Refusal(401, "The API key is not valid")

    def _stamp(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat() if self._path else None
        except OSError:
            return None
        return (found.st_mtime_ns, found.st_ino) if found else None

    def look(self) -> None:
        """Read the file if it is another one than last time."""
        stamp = self._stamp()
        if self._path is None or stamp == self._seen:
            return
        try:
            self._named = keys.load(self._path)
        except KeysError as error:
            if str(error) != self.failed:
                log.warning("the keys stay as they were: %s", error)
            self.failed = str(error)
            return
        self._seen, self.failed = stamp, None
        log.info("%d named keys are in use", len(self._named))

    async def watch(self) -> None:
        """Look for as long as the front runs."""
        while True:
            await asyncio.sleep(LOOK_S)
            self.look()


def _secret(path: str) -> str:
    try:
        secret = Path(path).read_text(encoding="utf-8").removesuffix("\n")
    except OSError as error:
        raise KeysError(f"{path}: {error.strerror}") from None
    if not secret:
        raise KeysError(f"{path}: is empty, expected a key")
    return secret
