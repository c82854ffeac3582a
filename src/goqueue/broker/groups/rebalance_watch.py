"""The group machine with somebody who counts its rebalances, from the records it replays."""

from collections.abc import Callable, Mapping
from typing import Final

from goqueue.broker.groups.rebalance_stats import RebalanceStats
from goqueue.model.groups.assignment import NOTHING, Assignment, count, without
from goqueue.model.groups.consumer_protocol import (
    MalformedProtocol,
    read_assignment,
    read_subscription,
)
from goqueue.model.groups.messages import LeaveGroup, LeaveGroupResult
from goqueue.model.groups.rebalances import RebalanceReason
from goqueue.model.groups.tasks import TaskRole, of_role
from goqueue.state.groups.classic_group import ClassicGroup
from goqueue.state.groups.consumer_group import ConsumerGroup, ConsumerMember
from goqueue.state.groups.coordinator import GroupMachine
from goqueue.state.groups.records import (
    AnyKey,
    ClassicGroupKey,
    ClassicGroupValue,
    ClassicMemberValue,
    ConsumerGroupKey,
    ConsumerMemberKey,
    CurrentMemberKey,
    StreamsCurrentKey,
    StreamsGroupKey,
    StreamsMemberKey,
    StreamsTargetKey,
    StreamsTopologyKey,
    decode_classic_group,
    decode_key,
)
from goqueue.state.groups.settings import GroupSettings
from goqueue.state.groups.states import MemberState
from goqueue.state.groups.streams.group import StreamsGroup, StreamsMember
from goqueue.state.groups.topic_regex import Sees
from goqueue.state.machine import Outcome, StateRecord, Ticket

# Keys are MessagePack arrays that begin with their tag. Offset records, nearly all there are, are
# known by it without decoding.
_TAG_POSITION: Final = 1
_OFFSET_TAGS: Final = (1, 2)

_STREAMS_KEYS: Final = (
    StreamsGroupKey,
    StreamsTopologyKey,
    StreamsMemberKey,
    StreamsTargetKey,
    StreamsCurrentKey,
)

_Partitions = Mapping[str, tuple[int, ...]]


class WatchedGroupMachine(GroupMachine):
    def __init__(
        self,
        settings: GroupSettings,
        new_id: Callable[[], str],
        spare_bytes: Callable[[str], int],
        sees: Sees,
        *,
        stats: RebalanceStats,
        clock_ms: Callable[[], int],
    ) -> None:
        super().__init__(settings, new_id, spare_bytes, sees)
        self._stats = stats
        self._clock_ms = clock_ms
        # Members that said good-bye, until their group's next generation.
        self._left: dict[str, set[str]] = {}
        # Why the next epoch of a consumer group comes, from the record before it.
        self._reasons: dict[str, RebalanceReason] = {}
        self._timed: frozenset[StateRecord] = frozenset()

    def leave(
        self, request: LeaveGroup, *, ticket: Ticket[LeaveGroupResult], now_ms: int
    ) -> Outcome:
        if isinstance(self._registry.groups.get(request.group_id), ClassicGroup):
            left = self._left.setdefault(request.group_id, set())
            for member in request.members:
                left.add(member.group_instance_id or member.member_id)
        return super().leave(request, ticket=ticket, now_ms=now_ms)

    def on_deadline(self, now_ms: int) -> Outcome:
        outcome = super().on_deadline(now_ms)
        self._timed = frozenset(outcome.records)
        return outcome

    def replay(self, record: StateRecord) -> None:
        if not self._registry.live or record.key[_TAG_POSITION] in _OFFSET_TAGS:
            super().replay(record)
            return
        key = decode_key(record.key)
        group = self._registry.groups.get(key.group)
        if isinstance(key, ClassicGroupKey):
            before = group.durable if isinstance(group, ClassicGroup) else None
            super().replay(record)
            self._classic_changed(key.group, before, record.value)
            return
        if isinstance(key, _STREAMS_KEYS):
            streams = group if isinstance(group, StreamsGroup) else None
            epoch = 0 if streams is None else streams.epoch
            known = None if streams is None else _streams_member(key, streams)
            super().replay(record)
            self._streams_changed(key, epoch, known, record)
            return
        member = self._member(key, group)
        super().replay(record)
        self._consumer_changed(key, member, record)

    # --- classic groups -------------------------------------------------------------------

    def _classic_changed(
        self, group_id: str, before: ClassicGroupValue | None, value: bytes | None
    ) -> None:
        after = None if value is None else decode_classic_group(value)
        if after is None or not after.members:
            self._left.pop(group_id, None)
            self._stats.deserted(group_id)
            return
        if before is None:
            return  # made just now, or a consumer group until now
        if after.generation != before.generation:
            group = self._registry.groups[group_id]
            assert isinstance(group, ClassicGroup)
            reason = _classic_reason(before, after, self._left.pop(group_id, set()))
            self._stats.begun(group_id, reason, group.rebalance_since_ms)
        if after.leader is not None and self._stats.is_in_progress(group_id):
            # Only the record with the leader's assignment names the leader.
            self._stats.moved(group_id, _gained_by_all(before, after))
            self._stats.ended(group_id, self._clock_ms())

    # --- consumer groups ------------------------------------------------------------------

    def _member(self, key: AnyKey, group: object) -> ConsumerMember | None:
        if isinstance(group, ConsumerGroup) and isinstance(
            key, ConsumerMemberKey | CurrentMemberKey
        ):
            return group.members.get(key.member)
        return None

    def _consumer_changed(
        self, key: AnyKey, before: ConsumerMember | None, record: StateRecord
    ) -> None:
        group_id = key.group
        group = self._registry.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            self._stats.deserted(group_id)
            return
        if isinstance(key, ConsumerMemberKey):
            self._note_reason(group, key.member, before, record)
        elif isinstance(key, ConsumerGroupKey):
            reason = self._reasons.pop(group_id, RebalanceReason.TOPICS_CHANGED)
            if group.members:
                self._stats.begun(group_id, reason, self._clock_ms())
            else:
                self._stats.deserted(group_id)
        elif isinstance(key, CurrentMemberKey) and record.value is not None:
            had: Assignment = NOTHING if before is None else before.current.assigned
            gained = count(without(group.members[key.member].current.assigned, had))
            if gained:
                self._stats.moved(group_id, gained)
            # The last record of a step: had there been a new epoch, it would have come before.
            self._reasons.pop(group_id, None)
        if self._stats.is_in_progress(group_id) and _is_settled(group):
            self._stats.ended(group_id, self._clock_ms())

    def _note_reason(
        self,
        group: ConsumerGroup,
        member_id: str,
        before: ConsumerMember | None,
        record: StateRecord,
    ) -> None:
        if record.value is None:
            reason = self._why_gone(record)
        elif before is None:
            reason = RebalanceReason.MEMBER_JOINED
        else:
            said = group.members[member_id].said
            if (said.topics, said.regex) == (before.said.topics, before.said.regex):
                return
            reason = RebalanceReason.SUBSCRIPTION_CHANGED
        self._reasons[group.group_id] = reason

    def _why_gone(self, record: StateRecord) -> RebalanceReason:
        is_timed = record in self._timed
        return RebalanceReason.MEMBER_EXPIRED if is_timed else RebalanceReason.MEMBER_LEFT

    # --- streams groups -------------------------------------------------------------------

    def _streams_changed(
        self, key: AnyKey, epoch: int, before: StreamsMember | None, record: StateRecord
    ) -> None:
        """`epoch` is what the group's was."""
        group_id = key.group
        group = self._registry.groups.get(group_id)
        if not isinstance(group, StreamsGroup):
            self._reasons.pop(group_id, None)
            self._stats.deserted(group_id)
            return
        if isinstance(key, StreamsTopologyKey):
            self._reasons[group_id] = RebalanceReason.SUBSCRIPTION_CHANGED
        elif isinstance(key, StreamsMemberKey):
            if record.value is None:
                self._reasons[group_id] = self._why_gone(record)
            elif before is None:
                self._reasons[group_id] = RebalanceReason.MEMBER_JOINED
        elif isinstance(key, StreamsGroupKey) and group.epoch != epoch:
            reason = self._reasons.pop(group_id, RebalanceReason.TOPICS_CHANGED)
            if group.members:
                self._stats.begun(group_id, reason, self._clock_ms())
            else:
                self._stats.deserted(group_id)
        elif isinstance(key, StreamsCurrentKey) and record.value is not None:
            had = {} if before is None else of_role(before.current.assigned, TaskRole.ACTIVE)
            has = of_role(group.members[key.member].current.assigned, TaskRole.ACTIVE)
            gained = count(without(has, had))
            if gained:
                self._stats.moved(group_id, gained)
            self._reasons.pop(group_id, None)
        if self._stats.is_in_progress(group_id) and _is_settled(group):
            self._stats.ended(group_id, self._clock_ms())


def _is_settled(group: ConsumerGroup | StreamsGroup) -> bool:
    return bool(group.members) and all(
        member.current.epoch == group.epoch and member.current.state is MemberState.STABLE
        for member in group.members.values()
    )


def _streams_member(key: AnyKey, group: StreamsGroup) -> StreamsMember | None:
    if isinstance(key, StreamsMemberKey | StreamsCurrentKey):
        return group.members.get(key.member)
    return None


def _name(member: ClassicMemberValue) -> str:
    """A static member is the same one under another id."""
    return member.instance_id or member.member_id


def _classic_reason(
    before: ClassicGroupValue, after: ClassicGroupValue, left: set[str]
) -> RebalanceReason:
    was = {_name(member): _topics(member) for member in before.members}
    now = {_name(member): _topics(member) for member in after.members}
    if now.keys() - was.keys():
        return RebalanceReason.MEMBER_JOINED
    gone = was.keys() - now.keys()
    if gone:
        return RebalanceReason.MEMBER_LEFT if gone & left else RebalanceReason.MEMBER_EXPIRED
    if was != now or before.protocol_name != after.protocol_name:
        return RebalanceReason.SUBSCRIPTION_CHANGED
    return RebalanceReason.TOPICS_CHANGED


def _gained_by_all(before: ClassicGroupValue, after: ClassicGroupValue) -> int:
    had = {_name(member): _partitions(member) for member in before.members}
    return sum(
        len(set(numbers) - set(had.get(_name(member), {}).get(topic, ())))
        for member in after.members
        for topic, numbers in _partitions(member).items()
    )


def _topics(member: ClassicMemberValue) -> frozenset[str]:
    try:
        return frozenset(read_subscription(member.metadata).topics)
    except MalformedProtocol:
        return frozenset()


def _partitions(member: ClassicMemberValue) -> _Partitions:
    try:
        return read_assignment(member.assignment).partitions
    except MalformedProtocol:
        return {}
