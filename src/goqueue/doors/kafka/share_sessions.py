"""Share sessions (KIP-932): which partitions a member of a share group fetches from this broker.

Volatile, one per member, bound to the connection that opened it: when that is gone, so is the
session, and what the member had acquired is for others. The epoch makes sure that requests are
neither lost nor repeated unnoticed.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Final

from kio.schema.errors import ErrorCode

from goqueue.model.fairness.belongings import Belongings
from goqueue.model.queues.share import ShareMember, SharePart

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_EPOCH_MAX: Final = 2**31 - 1
# Clients make their ids as UUIDs in text form.
MEMBER_ID_MAX_LENGTH: Final = 36


class ShareSessionError(Exception):
    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(slots=True)
class ShareSession:
    connection: Hashable
    # Whose member it is.
    party: str
    epoch: int
    # In the order in which they are served.
    parts: OrderedDict[SharePart, None]
    # Those that the last answer said may not be read. Consumers fetch again at once, whatever they
    # are told: the next fetch of these waits.
    refused: frozenset[SharePart] = frozenset()

    def serve_last(self, part: SharePart) -> None:
        """It has just had its turn: the next fetch begins with the others."""
        if part in self.parts:
            self.parts.move_to_end(part)


class ShareSessions:
    """Beyond `limit` the tenant or user that has most sessions loses its least recently used one,
    of which `on_lost` is told; nobody gets a further one at the cost of somebody who has less."""

    def __init__(self, limit: int, on_lost: Callable[[list[ShareMember]], None]) -> None:
        self._limit = limit
        self._on_lost = on_lost
        self._sessions: dict[ShareMember, ShareSession] = {}
        self._by_connection: dict[Hashable, set[ShareMember]] = {}
        self._held: Belongings[ShareMember] = Belongings()

    def __len__(self) -> int:
        return len(self._sessions)

    def fetch(
        self,
        member: ShareMember,
        epoch: int,
        wanted: Iterable[SharePart],
        forgotten: Iterable[SharePart],
        connection: Hashable,
        *,
        has_acknowledgements: bool,
        party: str = "",
    ) -> ShareSession:
        """The session of a fetch. With the final epoch, the caller closes it when it is done."""
        _check(member)
        if epoch == INITIAL_EPOCH:
            if has_acknowledgements:
                raise ShareSessionError(
                    ErrorCode.invalid_request,
                    "a request that opens a share session has nothing to acknowledge",
                )
            return self._open(member, wanted, connection, party)
        session = self._find(member, epoch)
        if epoch != FINAL_EPOCH:
            session.parts.update(dict.fromkeys(wanted))
            for part in forgotten:
                session.parts.pop(part, None)
        return session

    def acknowledge(self, member: ShareMember, epoch: int) -> ShareSession:
        _check(member)
        if epoch == INITIAL_EPOCH:
            raise ShareSessionError(
                ErrorCode.invalid_share_session_epoch,
                "an acknowledgement does not open a share session",
            )
        return self._find(member, epoch)

    def close(self, member: ShareMember) -> None:
        session = self._sessions.pop(member, None)
        if session is None:
            return
        members = self._by_connection[session.connection]
        members.discard(member)
        if not members:
            del self._by_connection[session.connection]
        self._held.remove(session.party, member)

    def connection_lost(self, connection: Hashable) -> list[ShareMember]:
        """Sessions that end with their connection."""
        ended = sorted(self._by_connection.get(connection, ()))
        for member in ended:
            self.close(member)
        return ended

    def _open(
        self,
        member: ShareMember,
        wanted: Iterable[SharePart],
        connection: Hashable,
        party: str,
    ) -> ShareSession:
        self.close(member)
        if len(self._sessions) >= self._limit:
            self._make_room(party)
        parts = OrderedDict.fromkeys(wanted)
        session = ShareSession(connection, party, _epoch_after(INITIAL_EPOCH), parts)
        self._sessions[member] = session
        self._held.add(party, member)
        self._by_connection.setdefault(connection, set()).add(member)
        return session

    def _make_room(self, party: str) -> None:
        loser = self._held.gives_way(party)
        lost = self._held.first(loser)
        if loser == party or lost is None:
            raise ShareSessionError(
                ErrorCode.share_session_limit_reached,
                f"there are {self._limit} share sessions (group.share.max.share.sessions)",
            )
        self.close(lost)
        self._on_lost([lost])

    def _find(self, member: ShareMember, epoch: int) -> ShareSession:
        session = self._sessions.get(member)
        if session is None:
            raise ShareSessionError(
                ErrorCode.share_session_not_found,
                f"member {member.member_id!r} of group {member.group_id!r} has no share session "
                "here",
            )
        if epoch == FINAL_EPOCH:
            return session
        if epoch != session.epoch:
            raise ShareSessionError(
                ErrorCode.invalid_share_session_epoch,
                f"share session epoch {epoch}; the next one is {session.epoch}",
            )
        session.epoch = _epoch_after(epoch)
        self._held.used(session.party, member)
        return session


def _check(member: ShareMember) -> None:
    if not member.group_id:
        raise ShareSessionError(ErrorCode.invalid_request, "group id must not be empty")
    if not 0 < len(member.member_id) <= MEMBER_ID_MAX_LENGTH:
        raise ShareSessionError(
            ErrorCode.invalid_request,
            f"member id must have 1 to {MEMBER_ID_MAX_LENGTH} characters",
        )


def _epoch_after(epoch: int) -> int:
    return 1 if epoch == _EPOCH_MAX else epoch + 1
