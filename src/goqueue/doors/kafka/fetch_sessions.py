"""Fetch sessions (KIP-227): what a client fetches is remembered, so that it sends only changes.

Sessions are volatile: a client whose session is gone is told so and starts a new one. Each is used
by one request at a time, which its epoch ensures. Each has a list of its partitions that may have
something to tell (`broker/partitions/ready_list.py`), so that a fetch costs what changed.
"""

import random
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from goqueue.model.caller import ANONYMOUS, Principal
from goqueue.model.errors import AccessDenied, GoQueueError
from goqueue.model.fairness.belongings import Belongings
from goqueue.model.fairness.headcount import Headcount
from goqueue.model.fairness.parties import party_of
from goqueue.model.log import FetchPart, Isolation
from goqueue.service.log import ReadyParts

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
    is_replica: bool = False
    # Nobody else uses or ends the session: ids can be guessed.
    reader: Principal = ANONYMOUS
    # Whose it is where something is divided.
    party: str = ""
    parts: dict[Hashable, FetchPart] = field(default_factory=dict)
    sent: dict[PartitionKey, SentState] = field(default_factory=dict)
    ready: ReadyParts = field(default_factory=ReadyParts)
    # Named by ids that nobody knows, or that their reader may not know.
    unnamed: dict[PartitionKey, None] = field(default_factory=dict)
    isolation: Isolation | None = None

    def change(
        self, wanted: Mapping[PartitionKey, FetchPart], forgotten: Iterable[PartitionKey]
    ) -> None:
        for key, part in wanted.items():
            self.parts[key] = part
            self.ready.add(key)
        for key in forgotten:
            self.parts.pop(key, None)
            self.sent.pop(key, None)
            self.unnamed.pop(key, None)
            self.ready.refused.discard(key)
            self.ready.forget(key)

    def read_as(self, isolation: Isolation) -> None:
        """What had nothing for one kind of reader may have something for the other."""
        if self.isolation not in (None, isolation):
            for key in self.parts:
                self.ready.add(key)
        self.isolation = isolation

    def name(self, name_of: Callable[[UUID | None], str]) -> dict[PartitionKey, GoQueueError]:
        """Look up the topics of what is ready by their ids; returns those that have no name."""
        refused: dict[PartitionKey, GoQueueError] = {}
        for key in [*self.unnamed, *self.ready.keys]:
            assert isinstance(key, PartitionKey)
            try:
                name = name_of(key.topic_id)
            except GoQueueError as error:
                refused[key] = error
                self.unnamed[key] = None
                self.ready.forget(key)
                continue
            part = self.parts[key]
            if part.topic != name:
                self.parts[key] = replace(part, topic=name)
            if key in self.unnamed:
                del self.unnamed[key]
                self.ready.add(key)
        return refused

    def has_news(
        self,
        key: PartitionKey,
        state: SentState,
        *,
        has_data: bool,
        error: GoQueueError | None,
    ) -> bool:
        """Whether an incremental answer must have this partition; remembers what is sent."""
        if isinstance(error, AccessDenied):
            self.ready.refused.add(key)
        elif self.ready.refused:
            self.ready.refused.discard(key)
        if error is not None:
            self.sent.pop(key, None)
            return True
        is_changed = self.sent.get(key, _NOTHING_SENT) != state
        self.sent[key] = state
        return has_data or is_changed


@dataclass(slots=True)
class FetchPlan:
    """What one request fetches, and how it is answered."""

    # Of a request without a session; else the session has them.
    parts: Mapping[PartitionKey, FetchPart]
    session: FetchSession | None = None
    is_incremental: bool = False

    @property
    def session_id(self) -> int:
        return NO_SESSION_ID if self.session is None else self.session.id


class FetchSessions:
    """All sessions of this broker; beyond `slots`, or so many partitions in all of them together,
    the least recently used of the tenant or user that has most is forgotten."""

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
        self._sessions: dict[int, FetchSession] = {}
        # Those of clients, and of how many partitions. Followers do not make room: there are few,
        # and they would come again at once.
        self._held: Belongings[int] = Belongings()
        self._parts_held = Headcount()

    def __len__(self) -> int:
        return len(self._sessions)

    def plan(
        self,
        session_id: int,
        epoch: int,
        wanted: Mapping[PartitionKey, FetchPart],
        forgotten: Iterable[PartitionKey],
        *,
        uses_topic_ids: bool,
        is_replica: bool = False,
        reader: Principal = ANONYMOUS,
    ) -> FetchPlan:
        known = self._sessions.get(session_id)
        if known is not None and known.reader != reader:
            session_id = NO_SESSION_ID
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._forget(session_id)
            if epoch == FINAL_EPOCH or not wanted:
                return FetchPlan(wanted)
            session = self._create(wanted, uses_topic_ids, is_replica, reader)
            return FetchPlan(wanted) if session is None else FetchPlan({}, session)
        session = self._find(session_id, epoch, uses_topic_ids, is_replica)
        before = len(session.parts)
        session.change(wanted, forgotten)
        self._count_parts(session, len(session.parts) - before)
        if not session.parts:
            self._forget(session_id)
            return FetchPlan({})
        session.epoch = _epoch_after(epoch)
        if not session.is_replica:
            self._held.used(session.party, session_id)
        self._make_room(session.party, 0)
        return FetchPlan({}, session, is_incremental=True)

    def _find(
        self, session_id: int, epoch: int, uses_topic_ids: bool, is_replica: bool
    ) -> FetchSession:
        session = self._sessions.get(session_id)
        # What wakes a follower is not what wakes a reader.
        if session is None or session.is_replica is not is_replica:
            raise SessionError(ErrorCode.fetch_session_id_not_found)
        if session.epoch != epoch:
            raise SessionError(ErrorCode.invalid_fetch_session_epoch)
        if session.uses_topic_ids != uses_topic_ids:
            raise SessionError(ErrorCode.fetch_session_topic_id_error)
        return session

    def _create(
        self,
        wanted: Mapping[PartitionKey, FetchPart],
        uses_topic_ids: bool,
        is_replica: bool,
        reader: Principal,
    ) -> FetchSession | None:
        if self._slots == 0 and not is_replica:
            return None
        party = party_of(reader)
        while len(self._sessions) >= self._slots:
            oldest = self._held.first(self._held.gives_way(party))
            if oldest is None:
                break
            self._forget(oldest)
        if not self._make_room(party, len(wanted)) and not is_replica:
            return None
        session_id = self._random.randint(1, 2**31 - 1)
        while session_id in self._sessions:
            session_id = self._random.randint(1, 2**31 - 1)
        epoch = _epoch_after(INITIAL_EPOCH)
        session = FetchSession(session_id, uses_topic_ids, epoch, is_replica, reader, party)
        session.change(wanted, ())
        self._sessions[session_id] = session
        if not is_replica:
            self._held.add(party, session_id)
        self._count_parts(session, len(session.parts))
        return session

    def _make_room(self, party: str, needed: int) -> bool:
        """For so many partitions; False: only if others gave way who have less."""
        while self._parts + needed > self._max_parts:
            oldest = self._held.first(self._parts_held.gives_way(party, needed))
            if oldest is None:
                # One that is larger than all together may be is taken while it is the only one.
                return not self._held
            self._forget(oldest)
        return True

    def _count_parts(self, session: FetchSession, more: int) -> None:
        self._parts += more
        if not session.is_replica:
            self._parts_held.add(session.party, more)

    def _forget(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is None:
            return
        self._count_parts(session, -len(session.parts))
        session.ready.close()
        if not session.is_replica:
            self._held.remove(session.party, session_id)


def _epoch_after(epoch: int) -> int:
    return 1 if epoch == _EPOCH_MAX else epoch + 1
