"""Reading and deleting groups: describe, list, delete."""

from goqueue.model.groups.assignment import NOTHING
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import (
    Client,
    DeleteGroupResult,
    DescribedConsumerGroup,
    DescribedConsumerMember,
    DescribedGroup,
    DescribedMember,
    ListedGroup,
    ListGroups,
)
from goqueue.state.groups.classic_group import ClassicGroup, ClassicMember
from goqueue.state.groups.consumer_group import ConsumerGroup, ConsumerMember
from goqueue.state.groups.gates import Gates
from goqueue.state.groups.offset_table import OffsetTable
from goqueue.state.groups.offsets import Offsets
from goqueue.state.groups.registry import Registry
from goqueue.state.groups.states import ClassicState
from goqueue.state.groups.target_assignment import preferred_assignor
from goqueue.state.machine import Outcome


class Administration:
    def __init__(
        self, registry: Registry, table: OffsetTable, offsets: Offsets, gates: Gates
    ) -> None:
        self._registry = registry
        self._table = table
        self._offsets = offsets
        self._gates = gates

    def list_groups(self, request: ListGroups) -> tuple[ListedGroup, ...]:
        states = {state.lower() for state in request.states}
        kinds = {kind.lower() for kind in request.kinds}
        listed = []
        for group_id in sorted(self._registry.groups.keys() | self._table.by_group.keys()):
            group = self._offsets.known_group(group_id)
            if group is None:
                continue
            state = group.state_name
            if (states and state.lower() not in states) or (
                kinds and group.kind.value.lower() not in kinds
            ):
                continue
            listed.append(
                ListedGroup(
                    group_id=group_id,
                    protocol_type=group.protocol_type or "",
                    state=state,
                    kind=group.kind,
                )
            )
        return tuple(listed)

    def describe(self, group_id: str) -> DescribedGroup:
        group = self._offsets.known_group(group_id)
        if not isinstance(group, ClassicGroup):
            return DescribedGroup(group_id=group_id, error=GroupError.GROUP_ID_NOT_FOUND)
        stable = group.state is ClassicState.STABLE
        return DescribedGroup(
            group_id=group_id,
            state=group.state_name,
            protocol_type=group.protocol_type or "",
            protocol_name=(group.protocol_name or "") if stable else "",
            members=tuple(_classic_member(group, m, stable) for m in group.members.values()),
        )

    def describe_consumer(self, group_id: str) -> DescribedConsumerGroup:
        group = self._registry.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            return DescribedConsumerGroup(
                group_id=group_id,
                error=GroupError.GROUP_ID_NOT_FOUND,
                error_message=f"no consumer group {group_id!r}",
            )
        return DescribedConsumerGroup(
            group_id=group_id,
            state=group.state_name,
            group_epoch=group.epoch,
            assignment_epoch=group.assignment_epoch,
            assignor=preferred_assignor(group.members),
            members=tuple(_consumer_member(group, m) for m in group.members.values()),
        )

    def delete(self, group_id: str, out: Outcome) -> DeleteGroupResult:
        group = self._offsets.known_group(group_id)
        if group is None:
            return DeleteGroupResult(group_id=group_id, error=GroupError.GROUP_ID_NOT_FOUND)
        if not group.is_empty:
            return DeleteGroupResult(group_id=group_id, error=GroupError.NON_EMPTY_GROUP)
        out.records += self._table.group_tombstones(group_id)
        out.records += group.tombstones()
        self._gates.forget(group_id)
        return DeleteGroupResult(group_id=group_id)


def _classic_member(group: ClassicGroup, member: ClassicMember, stable: bool) -> DescribedMember:
    return DescribedMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client=member.client,
        metadata=member.metadata_for(group.protocol_name) if stable else b"",
        assignment=member.assignment if stable else b"",
    )


def _consumer_member(group: ConsumerGroup, member: ConsumerMember) -> DescribedConsumerMember:
    said = member.said
    return DescribedConsumerMember(
        member_id=member.member_id,
        instance_id=said.instance_id,
        rack_id=said.rack_id,
        member_epoch=member.epoch,
        client=Client(client_id=said.client_id, host=said.client_host),
        subscribed_topics=said.topics,
        subscribed_regex=said.regex,
        assignment=member.current.assigned,
        target=group.targets.get(member.member_id, NOTHING),
        uses_classic_protocol=member.uses_classic_protocol,
    )
