"""The group coordinator as one machine: its commands, its timers, its replay."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from goqueue.model.fairness.amounts import Amounts
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import (
    CompleteTransaction,
    CompleteTransactionResult,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatResult,
    DeleteGroupResult,
    DescribedConsumerGroup,
    DescribedGroup,
    GroupKind,
    Heartbeat,
    HeartbeatResult,
    JoinGroup,
    JoinGroupResult,
    LeaveGroup,
    LeaveGroupResult,
    ListedGroup,
    ListGroups,
    OffsetCommit,
    OffsetCommitResult,
    OffsetDelete,
    OffsetDeleteResult,
    OffsetFetch,
    OffsetFetchResult,
    SyncGroup,
    SyncGroupResult,
    TxnOffsetCommit,
)
from goqueue.model.groups.share_messages import (
    DescribedShareGroup,
    OpenedShareGroup,
    ShareGroupHeartbeat,
    ShareGroupHeartbeatResult,
)
from goqueue.model.groups.streams_messages import (
    DescribedStreamsGroup,
    StreamsGroupHeartbeat,
    StreamsGroupHeartbeatResult,
)
from goqueue.model.settings import INT32_MAX
from goqueue.state.groups.admin import Administration
from goqueue.state.groups.classic import ClassicProtocol
from goqueue.state.groups.classic_group import ClassicGroup
from goqueue.state.groups.classic_members import ClassicMembers
from goqueue.state.groups.classic_rebalance import ClassicRebalance
from goqueue.state.groups.consumer import ConsumerProtocol
from goqueue.state.groups.consumer_group import ConsumerGroup
from goqueue.state.groups.gates import Gates
from goqueue.state.groups.offset_table import OffsetTable
from goqueue.state.groups.offsets import Offsets
from goqueue.state.groups.records import CommittedOffset, decode_key
from goqueue.state.groups.refused import Refused
from goqueue.state.groups.registry import AnyGroup, Registry, Timer
from goqueue.state.groups.replay import replayers
from goqueue.state.groups.room import StoredBytes
from goqueue.state.groups.settings import GroupOverrides, GroupSettings
from goqueue.state.groups.share import ShareProtocol
from goqueue.state.groups.share_group import ShareGroup
from goqueue.state.groups.states import MemberState
from goqueue.state.groups.streams.group import StreamsGroup
from goqueue.state.groups.streams.protocol import StreamsProtocol
from goqueue.state.groups.topic_regex import RegexCache, Search, Sees
from goqueue.state.groups.topics import Topics
from goqueue.state.machine import Outcome, StateRecord, Ticket

# Timers handled per call of `on_deadline`; a mass expiry is spread over several turns.
DUE_MAX: Final = 500


class GroupLook(NamedTuple):
    """A group as it is now, for figures; `committed` is by topic and partition, to read only."""

    kind: GroupKind
    state: str
    members: int
    committed: Mapping[str, Mapping[int, CommittedOffset]]


R = TypeVar("R")


class GroupMachine:
    """All groups of one partition of the offsets topic."""

    def __init__(
        self,
        settings: GroupSettings,
        new_id: Callable[[], str],
        spare_bytes: Callable[[str], int] = lambda _group_id: INT32_MAX,
        sees: Sees = lambda _viewer, _name: True,
    ) -> None:
        self._registry = Registry(settings, new_id, spare_bytes, regexes=RegexCache(sees))
        self._stored = StoredBytes()
        self._table = OffsetTable()
        self._rebalance = ClassicRebalance(self._registry)
        self._gates = Gates(self._registry, self._table)
        self._classic = ClassicProtocol(self._registry, self._rebalance, self._gates)
        self._consumer = ConsumerProtocol(self._registry, self._rebalance, self._gates)
        self._classic_members = ClassicMembers(self._registry, self._consumer)
        self._offsets = Offsets(self._registry, self._table, self._rebalance, self._gates)
        self._share = ShareProtocol(self._registry, self._offsets.known_group)
        self._streams = StreamsProtocol(self._registry, self._offsets.known_group)
        self._administration = Administration(
            self._registry, self._table, self._offsets, self._gates
        )
        self._replayers = replayers(self._registry, self._table)

    @property
    def group_names(self) -> set[str]:
        """With those that only have offsets, or will have some when a transaction commits."""
        return self._registry.groups.keys() | self._table.group_names

    def has_group(self, group_id: str) -> bool:
        return group_id in self._registry.groups or self._table.has_group(group_id)

    def has_members(self, group_id: str) -> bool:
        return (group := self._registry.groups.get(group_id)) is not None and not group.is_empty

    @property
    def held_bytes(self) -> int:
        return self._stored.held.total + sum(each for _, each in self._registry.said_bytes())

    @property
    def held_by_owners(self) -> tuple[Amounts, Amounts]:
        """As `held_bytes`, with whose they are."""
        said = Amounts()
        for group_id, size in self._registry.said_bytes():
            said.add(group_id, size)
        return self._stored.held, said

    # --- the machine ----------------------------------------------------------------------

    def replay(self, record: StateRecord) -> None:
        key = decode_key(record.key)
        self._replayers[type(key)](key, record.value)
        self._stored.replayed(key.group, record)

    def loaded(self, now_ms: int) -> Outcome:
        out = Outcome()
        for group in list(self._registry.groups.values()):
            if isinstance(group, ClassicGroup):
                self._rebalance.loaded(group, now_ms, out)
            elif isinstance(group, ConsumerGroup):
                self._consumer.loaded(group, now_ms)
            elif isinstance(group, StreamsGroup):
                self._streams.loaded(group, now_ms)
            else:
                self._share.loaded(group, now_ms)
        self._offsets.start_expiry(now_ms)
        self._gates.loaded(now_ms)
        self._gates.seed(self._registry.topics.split_names, self._registry.topics)
        self._registry.live = True
        return out

    def next_deadline_ms(self) -> int | None:
        return self._registry.deadlines.next_ms()

    def on_deadline(self, now_ms: int) -> Outcome:
        out = Outcome()
        # Members of one group go together: what one decides the next must not undo, and
        # decisions take effect only when they are replayed.
        overdue: dict[str, list[str]] = {}
        for timer in self._registry.deadlines.pop_due(now_ms, DUE_MAX):
            if timer.kind == "expire-offsets":
                self._expire_offsets(now_ms, out)
                continue
            if timer.kind == "uncommitted":
                self._gates.look_for_uncommitted(now_ms)
                continue
            if timer.kind == "seeds":
                out.records += self._gates.next_seeds()
                continue
            group = self._registry.groups.get(timer.group)
            if isinstance(group, ClassicGroup):
                self._classic_timer(group, timer, now_ms, out)
            elif group is not None and _must_go(group, timer):
                overdue.setdefault(timer.group, []).append(timer.member)
        for group_id, member_ids in overdue.items():
            group = self._registry.groups[group_id]
            if isinstance(group, ConsumerGroup):
                self._consumer.remove(group, dict.fromkeys(member_ids), now_ms, out)
            elif isinstance(group, ShareGroup):
                self._share.remove(group, dict.fromkeys(member_ids), out)
            elif isinstance(group, StreamsGroup):
                self._streams.remove(group, dict.fromkeys(member_ids), out)
        return out

    def on_topics_changed(self, topics: Topics) -> Outcome:
        """Tell the machine all topics there are, first of all and then at every change.

        Groups notice at their members' next heartbeat; offsets of deleted topics go at once.
        """
        out = Outcome()
        before, self._registry.topics = self._registry.topics, topics
        changes = topics.changes_since(before)
        self._registry.regexes.set_names(topics.public_names)
        changed = changes.all
        for group in self._registry.groups.values():
            if isinstance(group, ClassicGroup):
                continue
            searches = isinstance(group, ConsumerGroup) and bool(group.searches)
            if searches or not changed.isdisjoint(group.topic_subscribers):
                group.topics_changed = True
        if changes.deleted:
            out.records += self._table.topic_tombstones(changes.deleted)
        if self._registry.live:
            self._gates.topics_changed(changed)
            self._gates.seed(changed - changes.deleted, before)
        return out

    def match_topics(self, search: Search) -> Iterator[None]:
        """In steps, before a member subscribes by it: in one it could take a tenth of a second."""
        return self._registry.regexes.match_stepwise(search)

    def catch_up(self, *, by_rights: bool) -> Iterator[None]:
        """In steps, after topics have changed: what all regular expressions match. A group that
        asks before has its own held against them first.

        With `by_rights`, after rights have changed: what members find who may not see all topics.
        Groups notice at their members' next heartbeat.
        """
        yield from self._registry.regexes.catch_up()
        for search in self._registry.regexes.by_rights() if by_rights else ():
            if (yield from self._registry.regexes.search_again(search)):
                for group in self._registry.consumer_groups():
                    group.topics_changed |= search in group.searches

    def on_settings_changed(self, settings: GroupSettings) -> None:
        """What holds for all groups from now on."""
        self._registry.settings = settings

    def on_group_settings_changed(self, overrides: Mapping[str, GroupOverrides]) -> None:
        """What groups have of their own; members learn it with their next heartbeat."""
        self._registry.overrides = overrides

    def _classic_timer(self, group: ClassicGroup, timer: Timer, now_ms: int, out: Outcome) -> None:
        if timer.kind == "session":
            self._rebalance.session_expired(group, timer.member, now_ms, out)
        elif timer.kind == "join":
            self._rebalance.join_expired(group, now_ms, out)
        elif timer.kind == "sync":
            self._rebalance.sync_expired(group, now_ms, out)
        elif timer.kind == "downgraded":
            self._rebalance.downgraded(group, now_ms, out)
        elif timer.kind == "gates":
            self._rebalance.gates_opened(group, self._gates, now_ms, out)

    def _expire_offsets(self, now_ms: int, out: Outcome) -> None:
        self._offsets.expire(now_ms, out)
        self._registry.regexes.keep_only(
            search for group in self._registry.consumer_groups() for search in group.searches
        )

    # --- commands of the classic protocol -------------------------------------------------

    def join(self, request: JoinGroup, *, ticket: Ticket[JoinGroupResult], now_ms: int) -> Outcome:
        def decide(out: Outcome) -> None:
            _check_group_id(request.group_id)
            settings = self._registry.settings
            low, high = settings.min_session_timeout_ms, settings.max_session_timeout_ms
            if not low <= request.session_timeout_ms <= high:
                raise Refused(GroupError.INVALID_SESSION_TIMEOUT)
            group = self._registry.groups.get(request.group_id)
            if isinstance(group, ShareGroup) or (
                isinstance(group, StreamsGroup) and not group.is_empty
            ):
                raise Refused(GroupError.INCONSISTENT_GROUP_PROTOCOL)
            if isinstance(group, ConsumerGroup) and not group.is_empty:
                self._classic_members.join(group, request, ticket, now_ms, out)
            else:
                self._classic.join(request, ticket, now_ms, out)

        def refuse(refused: Refused) -> JoinGroupResult:
            return JoinGroupResult(error=refused.error, member_id=request.member_id)

        return _decided(decide, refuse, ticket)

    def sync(self, request: SyncGroup, *, ticket: Ticket[SyncGroupResult], now_ms: int) -> Outcome:
        def decide(out: Outcome) -> None:
            _check_group_id(request.group_id)
            group = self._group_with_members(request.group_id)
            if isinstance(group, ClassicGroup):
                self._classic.sync(group, request, ticket, now_ms, out)
            else:
                self._classic_members.sync(group, request, ticket, now_ms, out)

        return _decided(decide, lambda refused: SyncGroupResult(error=refused.error), ticket)

    def heartbeat(
        self, request: Heartbeat, *, ticket: Ticket[HeartbeatResult], now_ms: int
    ) -> Outcome:
        def decide(out: Outcome) -> None:
            _check_group_id(request.group_id)
            group = self._group_with_members(request.group_id)
            if isinstance(group, ClassicGroup):
                self._classic.heartbeat(group, request, ticket, now_ms, out)
            else:
                self._classic_members.heartbeat(group, request, ticket, now_ms, out)

        return _decided(decide, lambda refused: HeartbeatResult(error=refused.error), ticket)

    def leave(
        self, request: LeaveGroup, *, ticket: Ticket[LeaveGroupResult], now_ms: int
    ) -> Outcome:
        def decide(out: Outcome) -> None:
            _check_group_id(request.group_id)
            group = self._group_with_members(request.group_id)
            if isinstance(group, ClassicGroup):
                self._classic.leave(group, request, ticket, now_ms, out)
            else:
                self._classic_members.leave(group, request, ticket, now_ms, out)

        return _decided(decide, lambda refused: LeaveGroupResult(error=refused.error), ticket)

    def _group_with_members(self, group_id: str) -> ClassicGroup | ConsumerGroup:
        group = self._registry.groups.get(group_id)
        if group is None or isinstance(group, ShareGroup | StreamsGroup):
            raise Refused(GroupError.UNKNOWN_MEMBER_ID)
        return group

    # --- commands of the consumer protocol ------------------------------------------------

    def consumer_heartbeat(
        self,
        request: ConsumerGroupHeartbeat,
        *,
        ticket: Ticket[ConsumerGroupHeartbeatResult],
        now_ms: int,
    ) -> Outcome:
        def refuse(refused: Refused) -> ConsumerGroupHeartbeatResult:
            return ConsumerGroupHeartbeatResult(
                error=refused.error, error_message=refused.message, member_id=request.member_id
            )

        return _decided(
            lambda out: self._consumer.heartbeat(request, ticket, now_ms, out), refuse, ticket
        )

    # --- commands of share groups ---------------------------------------------------------

    def share_heartbeat(
        self,
        request: ShareGroupHeartbeat,
        *,
        ticket: Ticket[ShareGroupHeartbeatResult],
        now_ms: int,
    ) -> Outcome:
        def refuse(refused: Refused) -> ShareGroupHeartbeatResult:
            return ShareGroupHeartbeatResult(
                error=refused.error, error_message=refused.message, member_id=request.member_id
            )

        return _decided(
            lambda out: self._share.heartbeat(request, ticket, now_ms, out), refuse, ticket
        )

    def open_empty_share_group(
        self, group_id: str, *, may_make: bool, ticket: Ticket[OpenedShareGroup]
    ) -> Outcome:
        out = Outcome()
        out.reply(ticket, self._share.open_empty(group_id, may_make=may_make, out=out))
        return out

    def describe_share_group(
        self, group_id: str, *, ticket: Ticket[DescribedShareGroup]
    ) -> Outcome:
        out = Outcome()
        out.reply(ticket, self._share.describe(group_id))
        return out

    # --- commands of streams groups -------------------------------------------------------

    def streams_heartbeat(
        self,
        request: StreamsGroupHeartbeat,
        *,
        ticket: Ticket[StreamsGroupHeartbeatResult],
        now_ms: int,
    ) -> Outcome:
        def refuse(refused: Refused) -> StreamsGroupHeartbeatResult:
            return StreamsGroupHeartbeatResult(
                error=refused.error, error_message=refused.message, member_id=request.member_id
            )

        return _decided(
            lambda out: self._streams.heartbeat(request, ticket, now_ms, out), refuse, ticket
        )

    def describe_streams_group(
        self, group_id: str, *, ticket: Ticket[DescribedStreamsGroup]
    ) -> Outcome:
        out = Outcome()
        out.reply(ticket, self._streams.describe(group_id))
        return out

    # --- commands on offsets --------------------------------------------------------------

    def commit_offsets(
        self, request: OffsetCommit, *, ticket: Ticket[OffsetCommitResult], now_ms: int
    ) -> Outcome:
        out = Outcome()
        self._offsets.commit(request, ticket, now_ms, out)
        return out

    def commit_offsets_in_transaction(
        self, request: TxnOffsetCommit, *, ticket: Ticket[OffsetCommitResult], now_ms: int
    ) -> Outcome:
        out = Outcome()
        self._offsets.commit_in_transaction(request, ticket, now_ms, out)
        return out

    def complete_transaction(
        self, request: CompleteTransaction, *, ticket: Ticket[CompleteTransactionResult]
    ) -> Outcome:
        out = Outcome()
        self._offsets.complete_transaction(request, ticket, out)
        return out

    def fetch_offsets(self, request: OffsetFetch, *, ticket: Ticket[OffsetFetchResult]) -> Outcome:
        out = Outcome()
        self._offsets.fetch(request, ticket, out)
        return out

    def delete_offsets(
        self, request: OffsetDelete, *, ticket: Ticket[OffsetDeleteResult]
    ) -> Outcome:
        out = Outcome()
        self._offsets.delete(request, ticket, out)
        return out

    # --- looks without a ticket: what they show may not be committed yet ------------------

    def group_ids(self) -> list[str]:
        return list(self._registry.groups.keys() | self._table.by_group.keys())

    def look(self, group_id: str) -> GroupLook | None:
        committed = self._table.by_group.get(group_id, {})
        group = self._registry.groups.get(group_id)
        if group is not None:
            return GroupLook(group.kind, group.state_name, len(group.members), committed)
        known = self._offsets.known_group(group_id)
        return None if known is None else GroupLook(known.kind, known.state_name, 0, committed)

    # --- administration -------------------------------------------------------------------

    def list_groups(self, request: ListGroups, *, ticket: Ticket[Sequence[ListedGroup]]) -> Outcome:
        out = Outcome()
        out.reply(ticket, self._administration.list_groups(request))
        return out

    def describe_group(self, group_id: str, *, ticket: Ticket[DescribedGroup]) -> Outcome:
        out = Outcome()
        out.reply(ticket, self._administration.describe(group_id))
        return out

    def describe_consumer_group(
        self, group_id: str, *, ticket: Ticket[DescribedConsumerGroup]
    ) -> Outcome:
        out = Outcome()
        out.reply(ticket, self._administration.describe_consumer(group_id))
        return out

    def delete_group(self, group_id: str, *, ticket: Ticket[DeleteGroupResult]) -> Outcome:
        out = Outcome()
        out.reply(ticket, self._administration.delete(group_id, out))
        return out


def _decided(
    decide: Callable[[Outcome], None], refuse: Callable[[Refused], R], ticket: Ticket[R]
) -> Outcome:
    out = Outcome()
    try:
        decide(out)
    except Refused as refused:
        # Whoever refuses does so before deciding anything.
        assert not out.records
        assert not out.replies
        out.reply(ticket, refuse(refused))
    return out


def _must_go(group: AnyGroup, timer: Timer) -> bool:
    """Whether a member is to be removed: it is silent, or still holds what it was to give up."""
    if timer.kind == "revoke" and isinstance(group, ConsumerGroup | StreamsGroup):
        member = group.members.get(timer.member)
        return member is not None and member.current.state is MemberState.UNREVOKED
    return timer.kind in ("session", "member-join", "member-sync")


def _check_group_id(group_id: str) -> None:
    if not group_id:
        raise Refused(GroupError.INVALID_GROUP_ID)
