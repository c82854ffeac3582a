"""Sessions of browsers: a signed word that all brokers of a cluster understand, and none keeps.

It ends with its time, with the user, and with the user's password. One that is given back before
is remembered until then, by the broker that it was given back to.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from goqueue.broker.security.master_key import MasterKey
from goqueue.model.security.users import User

# A working day; who works longer logs in once more.
SESSION_MS: Final = 12 * 3_600_000
# Given back and not ended yet: 100 bytes each. The oldest are forgotten first.
ENDED_MAX: Final = 100_000
_PURPOSE: Final = "session"
_ID_BYTES: Final = 12
_MAC_BYTES: Final = 32


class _Session(msgspec.Struct, frozen=True, array_like=True):
    id: bytes
    user: str
    expires_ms: int
    stamp: bytes


_encode = msgspec.msgpack.Encoder().encode
_decoder: Final = msgspec.msgpack.Decoder(_Session)


class Sessions:
    def __init__(
        self,
        users: Callable[[], Mapping[str, User]],
        clock_ms: Callable[[], int],
        master_key: Callable[[], MasterKey],
    ) -> None:
        self._users = users
        self._clock_ms = clock_ms
        self._master_key = master_key
        self._ended: OrderedDict[bytes, None] = OrderedDict()

    def begin(self, user: User) -> tuple[str, int]:
        """The word for the cookie, and until when it is good."""
        expires_ms = self._clock_ms() + SESSION_MS
        session = _Session(secrets.token_bytes(_ID_BYTES), user.name, expires_ms, self._stamp(user))
        content = _encode(session)
        return _text(self._mac(content) + content), expires_ms

    def user_in(self, word: str) -> User | None:
        """Whose session it is, if it is good now."""
        session = self._read(word)
        if session is None or session.expires_ms <= self._clock_ms():
            return None
        user = self._users().get(session.user)
        if user is None or session.id in self._ended:
            return None
        return user if hmac.compare_digest(session.stamp, self._stamp(user)) else None

    def expires_ms(self, word: str) -> int:
        session = self._read(word)
        return 0 if session is None else session.expires_ms

    def end(self, word: str) -> None:
        session = self._read(word)
        if session is None:
            return
        self._ended[session.id] = None
        if len(self._ended) > ENDED_MAX:
            self._ended.popitem(last=False)

    def _read(self, word: str) -> _Session | None:
        content = _bytes(word)
        mac, content = content[:_MAC_BYTES], content[_MAC_BYTES:]
        if not content or not hmac.compare_digest(mac, self._mac(content)):
            return None
        return _decoder.decode(content)

    def _mac(self, content: bytes) -> bytes:
        return hmac.digest(self._master_key().secret(_PURPOSE, ""), content, hashlib.sha256)

    def _stamp(self, user: User) -> bytes:
        """Another one for another password, and for a later user of the same name."""
        proofs = b"".join(user.scram[each].stored_key for each in sorted(user.scram))
        content = f"{user.name}\0{user.tenant}\0{user.created_ms}\0".encode() + proofs
        return hmac.digest(self._master_key().secret(_PURPOSE, "stamp"), content, hashlib.sha256)


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        return b""
