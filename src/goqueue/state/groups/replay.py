"""What each record does to the durable state."""

from collections.abc import Callable
from typing import Any

from goqueue.model.groups.assignment import assignment
from goqueue.state.groups.classic_group import ClassicGroup
from goqueue.state.groups.consumer_group import ConsumerGroup
from goqueue.state.groups.current_assignment import CurrentAssignment
from goqueue.state.groups.offset_table import OffsetTable
from goqueue.state.groups.records import (
    ClassicGroupKey,
    ConsumerGroupKey,
    ConsumerMemberKey,
    CurrentMemberKey,
    OffsetKey,
    PendingOffsetKey,
    RecordKey,
    ShareGroupKey,
    ShareMemberKey,
    ShareTargetKey,
    StreamsCurrentKey,
    StreamsGroupKey,
    StreamsMemberKey,
    StreamsTargetKey,
    StreamsTopologyKey,
    TargetEpochKey,
    TargetMemberKey,
    decode_classic_group,
    decode_consumer_group,
    decode_consumer_member,
    decode_current_member,
    decode_share_group,
    decode_share_member,
    decode_share_target,
    decode_streams_current,
    decode_streams_group,
    decode_streams_member,
    decode_streams_target,
    decode_streams_topology,
    decode_target_epoch,
    decode_target_member,
)
from goqueue.state.groups.registry import Registry
from goqueue.state.groups.share_group import ShareGroup
from goqueue.state.groups.streams.group import StreamsGroup

Replayer = Callable[[Any, bytes | None], None]


def replayers(registry: Registry, table: OffsetTable) -> dict[type[RecordKey], Replayer]:
    """One function per kind of key, each taking the key and the value."""
    groups = GroupReplay(registry)
    shares = ShareReplay(registry)
    streams = StreamsReplay(registry)
    return {
        OffsetKey: table.replay_committed,
        PendingOffsetKey: table.replay_pending,
        ClassicGroupKey: groups.classic_group,
        ConsumerGroupKey: groups.consumer_group,
        ConsumerMemberKey: groups.consumer_member,
        TargetEpochKey: groups.target_epoch,
        TargetMemberKey: groups.target_member,
        CurrentMemberKey: groups.current_member,
        ShareGroupKey: shares.group,
        ShareMemberKey: shares.member,
        ShareTargetKey: shares.target,
        StreamsGroupKey: streams.group,
        StreamsTopologyKey: streams.topology,
        StreamsMemberKey: streams.member,
        StreamsTargetKey: streams.target,
        StreamsCurrentKey: streams.current,
    }


class GroupReplay:
    """A group that changes its kind is deleted by tombstones first, so kinds never mix; but a
    tombstone may come when its group is gone, or is already of the other kind."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._groups = registry.groups
        self._regexes = registry.regexes

    def classic_group(self, key: ClassicGroupKey, value: bytes | None) -> None:
        group = self._groups.get(key.group)
        if value is None:
            if isinstance(group, ClassicGroup):
                del self._groups[key.group]
            return
        decoded = decode_classic_group(value)
        if isinstance(group, ClassicGroup) and self._registry.live:
            # The command that made the record has changed the volatile part already.
            group.durable = decoded
        else:
            self._groups[key.group] = ClassicGroup.from_record(key.group, decoded)

    def consumer_group(self, key: ConsumerGroupKey, value: bytes | None) -> None:
        if value is None:
            if isinstance(self._groups.get(key.group), ConsumerGroup):
                del self._groups[key.group]
            return
        decoded = decode_consumer_group(value)
        group = self._made(key.group)
        group.epoch, group.topics_digest = decoded.epoch, decoded.topics_digest

    def consumer_member(self, key: ConsumerMemberKey, value: bytes | None) -> None:
        if value is not None:
            self._made(key.group).set_said(key.member, decode_consumer_member(value))
        elif (group := self._there(key.group)) is not None:
            group.remove_member(key.member)

    def target_epoch(self, key: TargetEpochKey, value: bytes | None) -> None:
        if value is not None:
            self._made(key.group).assignment_epoch = decode_target_epoch(value).epoch
        elif (group := self._there(key.group)) is not None:
            group.assignment_epoch = 0

    def target_member(self, key: TargetMemberKey, value: bytes | None) -> None:
        if value is not None:
            partitions = decode_target_member(value).partitions
            self._made(key.group).targets[key.member] = assignment(partitions)
        elif (group := self._there(key.group)) is not None:
            group.targets.pop(key.member, None)

    def current_member(self, key: CurrentMemberKey, value: bytes | None) -> None:
        if value is not None:
            current = CurrentAssignment.from_value(decode_current_member(value))
            self._made(key.group).set_current(key.member, current)
        elif (group := self._there(key.group)) is not None:
            group.remove_current(key.member)

    def _there(self, group_id: str) -> ConsumerGroup | None:
        group = self._groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def _made(self, group_id: str) -> ConsumerGroup:
        group = self._there(group_id)
        if group is None:
            group = self._groups[group_id] = ConsumerGroup(group_id, self._regexes)
        return group


class ShareReplay:
    def __init__(self, registry: Registry) -> None:
        self._groups = registry.groups

    def group(self, key: ShareGroupKey, value: bytes | None) -> None:
        if value is None:
            if self._there(key.group) is not None:
                del self._groups[key.group]
            return
        decoded = decode_share_group(value)
        group = self._made(key.group)
        group.epoch, group.topics_digest = decoded.epoch, decoded.topics_digest
        group.assignment_epoch = decoded.assignment_epoch

    def member(self, key: ShareMemberKey, value: bytes | None) -> None:
        if value is not None:
            self._made(key.group).set_member(key.member, decode_share_member(value))
        elif (group := self._there(key.group)) is not None:
            group.remove_member(key.member)

    def target(self, key: ShareTargetKey, value: bytes | None) -> None:
        if value is not None:
            partitions = decode_share_target(value).partitions
            self._made(key.group).targets[key.member] = assignment(partitions)
        elif (group := self._there(key.group)) is not None:
            group.targets.pop(key.member, None)

    def _there(self, group_id: str) -> ShareGroup | None:
        group = self._groups.get(group_id)
        return group if isinstance(group, ShareGroup) else None

    def _made(self, group_id: str) -> ShareGroup:
        group = self._there(group_id)
        if group is None:
            group = self._groups[group_id] = ShareGroup(group_id)
        return group


class StreamsReplay:
    def __init__(self, registry: Registry) -> None:
        self._groups = registry.groups

    def group(self, key: StreamsGroupKey, value: bytes | None) -> None:
        if value is not None:
            self._made(key.group).facts = decode_streams_group(value)
        elif self._there(key.group) is not None:
            del self._groups[key.group]

    def topology(self, key: StreamsTopologyKey, value: bytes | None) -> None:
        if value is not None:
            self._made(key.group).set_topology(decode_streams_topology(value).topology)
        elif (group := self._there(key.group)) is not None:
            group.set_topology(None)

    def member(self, key: StreamsMemberKey, value: bytes | None) -> None:
        if value is not None:
            self._made(key.group).set_said(key.member, decode_streams_member(value))
        elif (group := self._there(key.group)) is not None:
            group.remove_member(key.member)

    def target(self, key: StreamsTargetKey, value: bytes | None) -> None:
        if value is not None:
            tasks = decode_streams_target(value).tasks
            self._made(key.group).targets[key.member] = assignment(tasks)
        elif (group := self._there(key.group)) is not None:
            group.targets.pop(key.member, None)

    def current(self, key: StreamsCurrentKey, value: bytes | None) -> None:
        if value is not None:
            current = CurrentAssignment.from_value(decode_streams_current(value))
            self._made(key.group).set_current(key.member, current)
        elif (group := self._there(key.group)) is not None:
            group.remove_current(key.member)

    def _there(self, group_id: str) -> StreamsGroup | None:
        group = self._groups.get(group_id)
        return group if isinstance(group, StreamsGroup) else None

    def _made(self, group_id: str) -> StreamsGroup:
        group = self._there(group_id)
        if group is None:
            group = self._groups[group_id] = StreamsGroup(group_id)
        return group
