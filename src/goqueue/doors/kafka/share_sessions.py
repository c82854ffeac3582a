"""Share sessions (KIP-932): which partitions a member of a share group fetches from this broker.

Volatile, one per member, bound to the connection that opened it: when that is gone, so is the
session, and what the member had acquired is for others. The epoch makes sure that requests are
neither lost nor repeated unnoticed.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_EPOCH_MAX: Final = 2**31 - 1
# Clients make their ids as UUIDs in text form.
MEMBER_ID_MAX_LENGTH: Final = 36


class SharePart(NamedTuple):
    topic_id: UUID
    partition: int


class SessionKey(NamedTuple):
    group_id: str
    member_id: str


class ShareSessionError(Exception):
    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(slots=True)
class ShareSession:
    connection: Hashable
    epoch: int
    # In the order in which they are served.
    parts: OrderedDict[SharePart, None]

    def serve_last(self, part: SharePart) -> None:
        """It has just had its turn: the next fetch begins with the others."""
        if part in self.parts:
            self.parts.move_to_end(part)


class ShareSessions:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._by_connection: dict[Hashable, set[SessionKey]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def fetch(
        self,
        key: SessionKey,
        epoch: int,
        wanted: Iterable[SharePart],
        forgotten: Iterable[SharePart],
        connection: Hashable,
        *,
        has_acknowledgements: bool,
    ) -> ShareSession:
        """The session of a fetch. With the final epoch, the caller closes it when it is done."""
        _check(key)
        if epoch == INITIAL_EPOCH:
            if has_acknowledgements:
                raise ShareSessionError(
                    ErrorCode.invalid_request,
                    "a request that opens a share session has nothing to acknowledge",
                )
            return self._open(key, wanted, connection)
        session = self._find(key, epoch)
        if epoch != FINAL_EPOCH:
            session.parts.update(dict.fromkeys(wanted))
            for part in forgotten:
                session.parts.pop(part, None)
        return session

    def acknowledge(self, key: SessionKey, epoch: int) -> ShareSession:
        _check(key)
        if epoch == INITIAL_EPOCH:
            raise ShareSessionError(
                ErrorCode.invalid_share_session_epoch,
                "an acknowledgement does not open a share session",
            )
        return self._find(key, epoch)

    def close(self, key: SessionKey) -> None:
        session = self._sessions.pop(key, None)
        if session is None:
            return
        keys = self._by_connection[session.connection]
        keys.discard(key)
        if not keys:
            del self._by_connection[session.connection]

    def connection_lost(self, connection: Hashable) -> list[SessionKey]:
        """Sessions that end with their connection."""
        ended = sorted(self._by_connection.get(connection, ()))
        for key in ended:
            self.close(key)
        return ended

    def _open(
        self, key: SessionKey, wanted: Iterable[SharePart], connection: Hashable
    ) -> ShareSession:
        self.close(key)
        if len(self._sessions) >= self._limit:
            raise ShareSessionError(
                ErrorCode.share_session_limit_reached,
                f"there are {self._limit} share sessions (group.share.max.share.sessions)",
            )
        parts = OrderedDict.fromkeys(wanted)
        session = ShareSession(connection, _epoch_after(INITIAL_EPOCH), parts)
        self._sessions[key] = session
        self._by_connection.setdefault(connection, set()).add(key)
        return session

    def _find(self, key: SessionKey, epoch: int) -> ShareSession:
        session = self._sessions.get(key)
        if session is None:
            raise ShareSessionError(
                ErrorCode.share_session_not_found,
                f"member {key.member_id!r} of group {key.group_id!r} has no share session here",
            )
        if epoch == FINAL_EPOCH:
            return session
        if epoch != session.epoch:
            raise ShareSessionError(
                ErrorCode.invalid_share_session_epoch,
                f"share session epoch {epoch}; the next one is {session.epoch}",
            )
        session.epoch = _epoch_after(epoch)
        return session


def _check(key: SessionKey) -> None:
    if not key.group_id:
        raise ShareSessionError(ErrorCode.invalid_request, "group id must not be empty")
    if not 0 < len(key.member_id) <= MEMBER_ID_MAX_LENGTH:
        raise ShareSessionError(
            ErrorCode.invalid_request,
            f"member id must have 1 to {MEMBER_ID_MAX_LENGTH} characters",
        )


def _epoch_after(epoch: int) -> int:
    return 1 if epoch == _EPOCH_MAX else epoch + 1
