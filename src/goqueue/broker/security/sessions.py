"""Sessions of browsers: a signed word that all brokers of a cluster understand, and none keeps.

It ends with its time, with the user, and with the user's password. That one was given back before
is in the metadata until then.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

import msgspec

from goqueue.broker.security.master_key import MasterKey
from goqueue.broker.topics.changing import KeyChanges
from goqueue.broker.topics.following import MetadataFollower
from goqueue.metadata.store import Delete, Op, Put
from goqueue.model.security.sessions import EndedSession
from goqueue.model.security.users import USER_KIND, User
from goqueue.state import metadata_keys as keys
from goqueue.state.membership.feature_levels import Feature, first_use

# A working day; who works longer logs in once more.
SESSION_MS: Final = 12 * 3_600_000
# Given back before their time was over: each is read at every start and held by every broker.
# Beyond, a user's are kept as one, with which those that it began earlier end, too: none may come
# back to life. So there are as many more at most as there are users.
ENDED_MAX: Final = 10_000
# Of one user: a browser or two an hour, and all in one transaction of etcd (128 operations).
ENDED_PER_USER_MAX: Final = 50
# Of those that are over by now, whenever one is given back: more than there can come.
REMOVED_AT_ONCE_MAX: Final = 10
_KIND: Final = keys.SecurityKind.ENDED_SESSION
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
        before = self._ended.get(_all_of(user.name))
        if before is not None:
            # By the clock of a broker that is ahead of this one.
            expires_ms = max(expires_ms, before.expires_ms + 1)
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
        together = security.ended_sessions.get(_all_of(user.name))
        if together is not None and session.expires_ms <= together.expires_ms:
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
        own = [each for each, ended in self._ended.items() if ended.user == session.user]
        if len(own) >= ENDED_PER_USER_MAX or len(self._ended) >= ENDED_MAX:
            await self._end_together(session, own[:ENDED_PER_USER_MAX])
            return
        ended = EndedSession(expires_ms=session.expires_ms, user=session.user)
        ops: list[Op] = [Put(*keys.security_entry(_KIND, session.id.hex(), ended))]
        ops += (Delete(keys.security_key(_KIND, each)) for each in self._over())
        await self._changes.write(ops, Feature.SECURITY)

    async def _end_together(self, session: _Session, own: Sequence[str]) -> None:
        """With those of the same user that ended earlier, and in their place."""
        name = _all_of(session.user)
        key = keys.security_key(_KIND, name)
        ends_ms = [session.expires_ms, *(self._ended[each].expires_ms for each in own)]

        def together(value: bytes | None) -> list[Op]:
            if value is not None:
                ends_ms.append(keys.decode_value(key, value, EndedSession).expires_ms)
            ended = EndedSession(expires_ms=max(ends_ms), user=session.user)
            gone = {*own, *self._over()} - {name}
            return [
                Put(*keys.security_entry(_KIND, name, ended)),
                *(Delete(keys.security_key(_KIND, each)) for each in gone),
                *(Put(*each) for each in first_use(self._follower.image, Feature.SECURITY)),
            ]

        await self._changes.change(key, together)

    @property
    def _ended(self) -> Mapping[str, EndedSession]:
        return self._follower.image.security.ended_sessions

    def _over(self) -> Iterator[str]:
        now_ms = self._clock_ms()
        over = (each for each, session in self._ended.items() if session.expires_ms <= now_ms)
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


def _all_of(user: str) -> str:
    """Ids of sessions have no colon."""
    return f"{USER_KIND}:{user}"


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        return b""
