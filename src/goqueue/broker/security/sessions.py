"""Sessions of browsers: a signed word that all brokers of a cluster understand, and none keeps.

It ends with its time, with the user, and with the user's password. That one was given back before
is in the metadata until then.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

import msgspec

from goqueue.broker.security.master_key import MasterKey
from goqueue.broker.topics.changing import KeyChanges
from goqueue.broker.topics.following import MetadataFollower
from goqueue.metadata.store import Delete, Op, Put
from goqueue.model.fairness.headcount import Headcount
from goqueue.model.security.sessions import EndedSession
from goqueue.model.security.users import User
from goqueue.state import metadata_keys as keys
from goqueue.state.membership.feature_levels import Feature

# A working day; who works longer logs in once more.
SESSION_MS: Final = 12 * 3_600_000
# Given back before their time was over: each is read at every start and held by every broker. Of
# the user that has most of them, the one that would end first is forgotten: it is good again until
# then, which nobody can do to somebody else.
ENDED_MAX: Final = 10_000
# Of those that are over by now, whenever one is given back: more than there can come.
REMOVED_AT_ONCE_MAX: Final = 10
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
        changes: KeyChanges,
        follower: MetadataFollower,
        clock_ms: Callable[[], int],
        master_key: Callable[[], MasterKey],
    ) -> None:
        self._changes = changes
        self._follower = follower
        self._clock_ms = clock_ms
        self._master_key = master_key

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
        security = self._follower.image.security
        user = security.users.get(session.user)
        if user is None or session.id.hex() in security.ended_sessions:
            return None
        return user if hmac.compare_digest(session.stamp, self._stamp(user)) else None

    def expires_ms(self, word: str) -> int:
        session = self._read(word)
        return 0 if session is None else session.expires_ms

    async def end(self, word: str) -> None:
        """At all brokers, as soon as they have heard of it; here when this returns."""
        session = self._read(word)
        if session is None or self.user_in(word) is None:
            return
        kind, ended = (
            keys.SecurityKind.ENDED_SESSION,
            EndedSession(expires_ms=session.expires_ms, user=session.user),
        )
        ops: list[Op] = [Put(*keys.security_entry(kind, session.id.hex(), ended))]
        ops += (Delete(keys.security_key(kind, each)) for each in self._to_forget(session.user))
        await self._changes.write(ops, Feature.SECURITY)

    def _to_forget(self, user: str) -> Iterator[str]:
        ended = self._follower.image.security.ended_sessions
        if len(ended) >= ENDED_MAX:
            held = Headcount()
            for each in ended.values():
                held.add(each.user)
            loser = held.gives_way(user)
            own = (each for each, session in ended.items() if session.user == loser)
            return iter(sorted(own, key=lambda each: ended[each].expires_ms)[:1])
        now_ms = self._clock_ms()
        over = (each for each, session in ended.items() if session.expires_ms <= now_ms)
        return islice(over, REMOVED_AT_ONCE_MAX)

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
