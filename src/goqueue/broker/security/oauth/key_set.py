"""The public keys of the identity provider (JWKS, RFC 7517): from a file or a URL, kept on failure.

A provider changes its keys now and then: they are read again after a while, and when a token names
a key that is not known, though not for every such token.
"""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from goqueue.model.errors import InvalidConfig

log = logging.getLogger(__name__)

# Providers have two to ten keys of a kilobyte each.
KEY_SET_MAX_BYTES: Final = 1024 * 1024
KEYS_MAX: Final = 100
FETCH_TIMEOUT_S: Final = 10.0
_PIECE_BYTES: Final = 64 * 1024
# Anybody can name a key that there is not: the provider is not asked more often because of that.
UNKNOWN_KEY_REFRESH_S: Final = 10.0

# A key as it is written in the set.
JsonKey = Mapping[str, Any]
Read = Callable[[], bytes]


class KeySet:
    def __init__(self, read: Read, source: str, refresh_s: float) -> None:
        self._read = read
        self._source = source
        self._refresh_s = refresh_s
        self._keys: list[JsonKey] = []
        # Grows with every change of them.
        self.generation = 0
        self._tried_s: float | None = None
        self._refreshing: asyncio.Task[None] | None = None

    def keep_fresh(self) -> None:
        """For those who need no key now."""
        age_s = self._age_s()
        if age_s is not None and age_s > self._refresh_s:
            self._begin()

    async def find(self, key_id: str | None, kind: str) -> JsonKey | None:
        """The key that a token names, of the kind (`kty`) that its algorithm needs. A token need
        not name one where there is but one."""
        age_s = self._age_s()
        if age_s is None:
            await self._refresh()
        # With those that are known meanwhile.
        self.keep_fresh()
        found = self._look(key_id, kind)
        if found is None and (age_s or 0.0) > UNKNOWN_KEY_REFRESH_S:
            await self._refresh()
            found = self._look(key_id, kind)
        return found

    def _look(self, key_id: str | None, kind: str) -> JsonKey | None:
        fitting = [
            key
            for key in self._keys
            if key.get("kty") == kind
            and key.get("use", "sig") == "sig"
            and (key_id is None or key.get("kid") == key_id)
        ]
        return fitting[0] if len(fitting) == 1 else None

    def _age_s(self) -> float | None:
        return None if self._tried_s is None else asyncio.get_running_loop().time() - self._tried_s

    async def _refresh(self) -> None:
        """One reads for all who wait."""
        await asyncio.shield(self._begin())

    def _begin(self) -> asyncio.Task[None]:
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._load())
        return self._refreshing

    async def _load(self) -> None:
        try:
            keys = await asyncio.to_thread(lambda: _parse(self._read()))
            self.generation += keys != self._keys
            self._keys = keys
        # Whatever stands there: what is no HTTP, or nested too deeply, is no OSError.
        except Exception as error:
            log.warning(
                "%s: the keys of the identity provider cannot be read, and the %d known ones are "
                "used on: %s",
                self._source,
                len(self._keys),
                error,
            )
        self._tried_s = asyncio.get_running_loop().time()


def open_key_set(*, file: str, url: str, refresh_ms: int) -> KeySet:
    refresh_s = refresh_ms / 1000
    if file:
        return KeySet(lambda: _of_file(Path(file)), file, refresh_s)
    return KeySet(lambda: _of_url(url), url, refresh_s)


def check_url(url: str) -> None:
    """Who can change the keys on their way can be anybody."""
    parts = urlsplit(url)
    is_local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    if not (parts.hostname and (parts.scheme == "https" or (parts.scheme == "http" and is_local))):
        raise InvalidConfig("oauth.jwks.url: must begin with https://, or be of this machine")


def _of_file(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(KEY_SET_MAX_BYTES + 1)


def _of_url(url: str) -> bytes:
    from urllib.request import HTTPRedirectHandler, build_opener  # only who has a URL needs it

    class NoRedirects(HTTPRedirectHandler):
        """Not to where nobody checked."""

        def redirect_request(self, *_: Any) -> None:
            return None

    ends_s = time.monotonic() + FETCH_TIMEOUT_S
    body = b""
    with build_opener(NoRedirects).open(url, timeout=FETCH_TIMEOUT_S) as answer:
        # The time-out above is for each piece that arrives.
        while len(body) <= KEY_SET_MAX_BYTES and (piece := answer.read1(_PIECE_BYTES)):
            body += piece
            if time.monotonic() > ends_s:
                raise TimeoutError(f"not read within {FETCH_TIMEOUT_S:g} s")
    return body


def _parse(text: bytes) -> list[JsonKey]:
    if len(text) > KEY_SET_MAX_BYTES:
        raise ValueError(f"more than {KEY_SET_MAX_BYTES} bytes")
    document = json.loads(text)
    keys = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(keys, list) or not all(isinstance(key, dict) for key in keys):
        raise ValueError("is no set of keys (RFC 7517, 5)")
    if len(keys) > KEYS_MAX:
        raise ValueError(f"more than {KEYS_MAX} keys")
    return keys
