"""Fetch sessions (KIP-227): what a client fetches is remembered, so that it sends only changes.

Sessions are volatile: a client whose session is gone is told so and starts a new one. Each is used
by one request at a time, which its epoch ensures.
"""

import random
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

NO_SESSION_ID: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
# Where nobody says otherwise.
MAX_PARTS: Final = 200_000
_EPOCH_MAX: Final = 2**31 - 1


class PartitionKey(NamedTuple):
    """A partition as the client names it: by topic id from version 13 on, else by name."""

    topic_id: UUID | None
    topic: str
    partition: int


class WantedPart(NamedTuple):
    offset: int
    max_bytes: int
    leader_epoch: int
    last_fetched_epoch: int


class SentState(NamedTuple):
    """What the client was last told; an incremental answer leaves out partitions without news."""

    high_watermark: int
    last_stable_offset: int
    log_start_offset: int


_NOTHING_SENT: Final = SentState(-1, -1, -1)


class SessionError(Exception):
    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


@dataclass(slots=True)
class FetchSession:
    id: int
    uses_topic_ids: bool
    epoch: int
    parts: OrderedDict[PartitionKey, WantedPart]
    sent: dict[PartitionKey, SentState]

    def change(
        self, wanted: Mapping[PartitionKey, WantedPart], forgotten: Iterable[PartitionKey]
    ) -> None:
        for key, part in wanted.items():
            self.parts[key] = part
        for key in forgotten:
            self.parts.pop(key, None)
            self.sent.pop(key, None)

    def has_news(
        self, key: PartitionKey, state: SentState, *, has_data: bool, is_error: bool
    ) -> bool:
        """Whether an incremental answer must have this partition; remembers what is sent."""
        if is_error:
            self.sent.pop(key, None)
            return True
        is_changed = self.sent.get(key, _NOTHING_SENT) != state
        self.sent[key] = state
        if has_data and key in self.parts:
            # The next fetch begins with the others, so that no partition starves.
            self.parts.move_to_end(key)
        return has_data or is_changed


@dataclass(slots=True)
class FetchPlan:
    """What one request fetches, and how it is answered."""

    parts: Mapping[PartitionKey, WantedPart]
    session: FetchSession | None = None
    is_incremental: bool = False

    @property
    def session_id(self) -> int:
        return NO_SESSION_ID if self.session is None else self.session.id


class FetchSessions:
    """All sessions of this broker; beyond `slots`, or so many partitions in all of them together,
    the least recently used is forgotten."""

    def __init__(
        self,
        slots: int,
        random_source: random.Random | None = None,
        *,
        max_parts: int = MAX_PARTS,
    ) -> None:
        self._slots = slots
        self._max_parts = max_parts
        self._parts = 0
        self._random = random_source or random.SystemRandom()
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def plan(
        self,
        session_id: int,
        epoch: int,
        wanted: Mapping[PartitionKey, WantedPart],
        forgotten: Iterable[PartitionKey],
        *,
        uses_topic_ids: bool,
    ) -> FetchPlan:
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._forget(session_id)
            if epoch == FINAL_EPOCH or not wanted:
                return FetchPlan(wanted)
            return FetchPlan(wanted, self._create(wanted, uses_topic_ids))
        session = self._find(session_id, epoch, uses_topic_ids)
        before = len(session.parts)
        session.change(wanted, forgotten)
        self._parts += len(session.parts) - before
        if not session.parts:
            self._forget(session_id)
            return FetchPlan({})
        session.epoch = _epoch_after(epoch)
        self._sessions.move_to_end(session_id)
        self._make_room(0)
        return FetchPlan(OrderedDict(session.parts), session, is_incremental=True)

    def _find(self, session_id: int, epoch: int, uses_topic_ids: bool) -> FetchSession:
        session = self._sessions.get(session_id)
        if session is None:
            raise SessionError(ErrorCode.fetch_session_id_not_found)
        if session.epoch != epoch:
            raise SessionError(ErrorCode.invalid_fetch_session_epoch)
        if session.uses_topic_ids != uses_topic_ids:
            raise SessionError(ErrorCode.fetch_session_topic_id_error)
        return session

    def _create(
        self, wanted: Mapping[PartitionKey, WantedPart], uses_topic_ids: bool
    ) -> FetchSession | None:
        if self._slots == 0:
            return None
        while len(self._sessions) >= self._slots:
            self._forget(next(iter(self._sessions)))
        self._make_room(len(wanted))
        session_id = self._random.randint(1, 2**31 - 1)
        while session_id in self._sessions:
            session_id = self._random.randint(1, 2**31 - 1)
        session = FetchSession(
            session_id, uses_topic_ids, _epoch_after(INITIAL_EPOCH), OrderedDict(wanted), {}
        )
        self._sessions[session_id] = session
        self._parts += len(session.parts)
        return session

    def _make_room(self, needed: int) -> None:
        while self._sessions and self._parts + needed > self._max_parts:
            self._forget(next(iter(self._sessions)))

    def _forget(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._parts -= len(session.parts)


def _epoch_after(epoch: int) -> int:
    return 1 if epoch == _EPOCH_MAX else epoch + 1
