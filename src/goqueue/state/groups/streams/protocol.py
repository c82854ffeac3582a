"""Commands and timers of streams groups (KIP-1071): the heartbeat joins, reports and leaves."""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Final, NamedTuple

import msgspec

from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import JOIN_EPOCH, LEAVE_EPOCH, GroupKind
from goqueue.model.groups.streams_messages import (
    DescribedStreamsGroup,
    Status,
    StatusCode,
    StreamsGroupHeartbeat,
    StreamsGroupHeartbeatResult,
)
from goqueue.model.groups.tasks import NO_TASKS, TaskKey, Tasks
from goqueue.state.groups.classic_group import ClassicGroup
from goqueue.state.groups.consumer_group import digest_of
from goqueue.state.groups.group import Group
from goqueue.state.groups.reconciliation import reconcile
from goqueue.state.groups.records import StreamsGroupValue
from goqueue.state.groups.refused import Refused
from goqueue.state.groups.registry import Registry, Timer
from goqueue.state.groups.states import MemberState
from goqueue.state.groups.streams.assignor import MemberSpec, assign
from goqueue.state.groups.streams.group import (
    GroupTopology,
    StreamsGroup,
    StreamsMember,
    said_bytes,
)
from goqueue.state.groups.streams.requests import (
    check_request,
    said_by,
    says_nothing_new,
)
from goqueue.state.groups.streams.showing import described, endpoints_of
from goqueue.state.groups.streams.topology import ConfiguredTopology, configured
from goqueue.state.machine import Outcome, Ticket

# Epochs of endpoints begin anew with each coordinator; those of two must not be mistaken.
_ENDPOINT_EPOCHS: Final = 2**30


class _Topics(NamedTuple):
    """The topology of a group with its topics, as a heartbeat finds them."""

    topology: GroupTopology
    configured: ConfiguredTopology
    digest: int

    @property
    def validated_epoch(self) -> int:
        return self.topology.epoch if self.configured.is_ready else -1


class StreamsProtocol:
    """`find` also knows groups that have offsets and no record of their own."""

    def __init__(self, registry: Registry, find: Callable[[str], Group | None]) -> None:
        self._registry = registry
        self._find = find

    # --- the heartbeat --------------------------------------------------------------------

    def heartbeat(
        self,
        request: StreamsGroupHeartbeat,
        ticket: Ticket[StreamsGroupHeartbeatResult],
        now_ms: int,
        out: Outcome,
    ) -> None:
        known = self._registry.groups.get(request.group_id)
        if (
            isinstance(known, StreamsGroup)
            and says_nothing_new(known, request)
            and known.facts.standby_replicas == self._standbys(request.group_id)
        ):
            self._touch(request.group_id, request.member_id, now_ms)
            out.reply(ticket, self._result(known, request, request.member_epoch))
            return
        check_request(request)
        if request.member_epoch == LEAVE_EPOCH:
            self._leave(request, ticket, out)
        else:
            self._regular(request, ticket, now_ms, out)

    def _regular(
        self,
        request: StreamsGroupHeartbeat,
        ticket: Ticket[StreamsGroupHeartbeatResult],
        now_ms: int,
        out: Outcome,
    ) -> None:
        joins = request.member_epoch == JOIN_EPOCH
        found = self._find(request.group_id)
        group = _opened(request.group_id, found, may_make=joins)
        self._check_room(group, request.member_id)
        if joins:
            member = group.members.get(request.member_id) or StreamsMember(request.member_id)
        else:
            member = group.member(request.member_id)
            member.current.check_epoch(request.member_epoch, request.owned, of="tasks")
        topology = _topology(group, request)
        updated = replace(member, said=said_by(member.said, request))
        self._check_said(group, updated, topology)
        # Nothing is refused from here on.
        if found is not None and found is not group:
            out.records += found.tombstones()
        topics = self._topics(group, topology)
        updated = self._step(group, updated, topics, request.owned, now_ms, out)
        self._touch(request.group_id, request.member_id, now_ms)
        if request.shutdown_application:
            group.shutdown_by = request.member_id
        given = updated.current.assigned
        # Also to a member that missed an answer: it is an epoch behind, or has other tasks.
        is_told = (
            joins
            or given != member.current.assigned
            or request.member_epoch != member.epoch
            or (request.owned is not None and request.owned != given)
        )
        is_stale = updated.said.topology_epoch < topology.epoch
        result = self._result(group, request, updated.epoch)
        out.reply(
            ticket,
            msgspec.structs.replace(
                result,
                status=_statuses(group, topics, updated if is_stale else None),
                tasks=given if is_told else None,
                endpoints=(
                    None
                    if request.endpoint_epoch == group.endpoint_epoch
                    else endpoints_of(group.members.values(), topics.configured)
                ),
                missing_topics=topics.configured.missing_topics,
            ),
        )

    def _check_room(self, group: StreamsGroup, member_id: str) -> None:
        limit = self._registry.settings.streams_max_size
        if len(group.members) >= limit and member_id not in group.members:
            raise Refused(
                GroupError.GROUP_MAX_SIZE_REACHED, f"the group has reached its limit of {limit}"
            )

    def _check_said(
        self, group: StreamsGroup, member: StreamsMember, topology: GroupTopology
    ) -> None:
        """The topology counts as if the member that brings it had said it."""
        known = group.members.get(member.member_id)
        grown = topology.size_bytes if topology is not group.topology else 0
        self._registry.check_said(
            group.group_id,
            group.said_bytes + (topology.size_bytes - grown),
            None if known is None else said_bytes(known.said),
            said_bytes(member.said) + grown,
        )

    def _topics(self, group: StreamsGroup, topology: GroupTopology) -> _Topics:
        """Worked out again only when topics have changed."""
        found = group.configured
        if found is not None and not group.topics_changed and topology is group.topology:
            return _Topics(topology, found, group.facts.topics_digest)
        known = self._registry.topics
        group.configured = found = configured(topology.topology, known)
        group.topics_changed = False
        return _Topics(topology, found, digest_of(topology.topics, known))

    def _standbys(self, group_id: str) -> int:
        return self._registry.standby_replicas(group_id)

    def _touch(self, group_id: str, member_id: str, now_ms: int) -> None:
        times = self._registry.member_times(group_id, GroupKind.STREAMS)
        self._registry.start_session(group_id, member_id, times.session_timeout_ms, now_ms)

    def _result(
        self, group: StreamsGroup, request: StreamsGroupHeartbeat, epoch: int
    ) -> StreamsGroupHeartbeatResult:
        times = self._registry.member_times(request.group_id, GroupKind.STREAMS)
        return StreamsGroupHeartbeatResult(
            member_id=request.member_id,
            member_epoch=epoch,
            heartbeat_interval_ms=times.heartbeat_interval_ms,
            endpoint_epoch=group.endpoint_epoch,
        )

    # --- one step of one member -----------------------------------------------------------

    def _step(
        self,
        group: StreamsGroup,
        member: StreamsMember,
        topics: _Topics,
        owned: Tasks | None,
        now_ms: int,
        out: Outcome,
    ) -> StreamsMember:
        """Record what the member said, bump the epoch and assign anew if that changes anything,
        and bring the member closer to its target."""
        known = group.members.get(member.member_id)
        if topics.topology is not group.topology:
            out.records.append(group.topology_record(topics.topology.topology))
        if known is None or known.said != member.said:
            out.records.append(group.said_record(member))
        facts = msgspec.structs.replace(
            group.facts,
            topics_digest=topics.digest,
            validated_epoch=topics.validated_epoch,
            standby_replicas=self._standbys(group.group_id),
        )
        if (
            known is None
            or known.said.process_id != member.said.process_id
            or topics.topology is not group.topology
            or facts != group.facts
        ):
            facts = msgspec.structs.replace(facts, epoch=group.epoch + 1)
        target = group.targets.get(member.member_id, NO_TASKS)
        if facts.epoch > group.assignment_epoch:
            target = self._assign(group, member, topics.configured, facts, out)
            facts = msgspec.structs.replace(facts, assignment_epoch=facts.epoch)
        if facts != group.facts:
            out.records.append(group.facts_record(facts))
        return self._reconcile(group, member, target, facts.assignment_epoch, owned, now_ms, out)

    def _assign(
        self,
        group: StreamsGroup,
        member: StreamsMember,
        topics: ConfiguredTopology,
        facts: StreamsGroupValue,
        out: Outcome,
    ) -> Tasks:
        """Everybody's target anew; returns the member's own."""
        members = {**group.members, member.member_id: member}
        targets = dict.fromkeys(members, NO_TASKS)
        if topics.is_ready:
            specs = {
                name: MemberSpec(each.said.process_id, group.targets.get(name, NO_TASKS))
                for name, each in members.items()
            }
            targets = assign(specs, topics.subtopologies, facts.standby_replicas)
        out.records += [
            group.target_record(name, target)
            for name, target in targets.items()
            if group.targets.get(name) != target
        ]
        return targets[member.member_id]

    def _reconcile(
        self,
        group: StreamsGroup,
        member: StreamsMember,
        target: Tasks,
        target_epoch: int,
        owned: Tasks | None,
        now_ms: int,
        out: Outcome,
    ) -> StreamsMember:
        def taken(key: TaskKey, partition: int) -> bool:
            return group.is_taken(key, partition, member)

        current = reconcile(
            member.current,
            target_epoch=target_epoch,
            target=target,
            subscribed=frozenset(target),
            taken=taken,
            owned=owned,
            subscription_changed=False,
        )
        if current == member.current:
            return member
        updated = replace(member, current=current)
        out.records.append(group.current_record(updated))
        timer = Timer("revoke", group.group_id, member.member_id)
        if current.state is MemberState.UNREVOKED:
            self._registry.deadlines.set(timer, now_ms + member.said.rebalance_timeout_ms)
        else:
            self._registry.deadlines.cancel(timer)
        return updated

    # --- leaving --------------------------------------------------------------------------

    def _leave(
        self,
        request: StreamsGroupHeartbeat,
        ticket: Ticket[StreamsGroupHeartbeatResult],
        out: Outcome,
    ) -> None:
        group = _opened(request.group_id, self._find(request.group_id), may_make=False)
        member = group.member(request.member_id)
        if request.shutdown_application:
            group.shutdown_by = request.member_id
        self.remove(group, [member.member_id], out)
        out.reply(
            ticket,
            StreamsGroupHeartbeatResult(member_id=request.member_id, member_epoch=LEAVE_EPOCH),
        )

    def remove(self, group: StreamsGroup, member_ids: Collection[str], out: Outcome) -> None:
        """Take members out; the others get their tasks with their next heartbeats."""
        leaving = [m for m in member_ids if m in group.members]
        if not leaving:
            return
        for member_id in leaving:
            self._registry.cancel_member_timers(group.group_id, member_id)
            out.records += group.member_tombstones(member_id)
        facts = msgspec.structs.replace(group.facts, epoch=group.epoch + 1)
        out.records.append(group.facts_record(facts))

    def loaded(self, group: StreamsGroup, now_ms: int) -> None:
        group.endpoint_epoch = now_ms // 1_000 % _ENDPOINT_EPOCHS
        for member in group.members.values():
            self._touch(group.group_id, member.member_id, now_ms)
            if member.current.state is MemberState.UNREVOKED:
                timer = Timer("revoke", group.group_id, member.member_id)
                self._registry.deadlines.set(timer, now_ms + member.said.rebalance_timeout_ms)

    # --- administration -------------------------------------------------------------------

    def describe(self, group_id: str) -> DescribedStreamsGroup:
        group = self._find(group_id)
        if not isinstance(group, StreamsGroup):
            refused = _not_found(group_id, group)
            return DescribedStreamsGroup(
                group_id=group_id, error=refused.error, error_message=refused.message
            )
        return described(group, self._registry.topics)


def _opened(group_id: str, found: Group | None, *, may_make: bool) -> StreamsGroup:
    """The group to work on; one that is new, or was an empty classic group, is a draft until it is
    replayed."""
    if isinstance(found, StreamsGroup):
        return found
    if may_make and (found is None or (isinstance(found, ClassicGroup) and found.is_empty)):
        return StreamsGroup(group_id)
    raise _not_found(group_id, found)


def _not_found(group_id: str, group: Group | None) -> Refused:
    message = (
        f"there is no streams group {group_id!r}"
        if group is None
        else f"group {group_id!r} is not a streams group but {group.kind.value.lower()}"
    )
    return Refused(GroupError.GROUP_ID_NOT_FOUND, message)


def _topology(group: StreamsGroup, request: StreamsGroupHeartbeat) -> GroupTopology:
    """The group's, or the one that the member brings: the first, or that of an application that was
    stopped and starts again with another."""
    known = group.topology
    if request.topology is None:
        assert known is not None, f"{group.group_id} has members and no topology"
        return known
    if known is None or (known.topology != request.topology and not _others(group, request)):
        return GroupTopology(request.topology)
    if known.topology == request.topology or request.topology.epoch < known.epoch:
        return known
    raise Refused(
        GroupError.INVALID_REQUEST,
        "the topology differs from that of the group's other members; stop them all before it is "
        "changed",
    )


def _others(group: StreamsGroup, request: StreamsGroupHeartbeat) -> bool:
    return bool(group.members.keys() - {request.member_id})


def _statuses(
    group: StreamsGroup, topics: _Topics, stale: StreamsMember | None
) -> tuple[Status, ...]:
    found = []
    if stale is not None:
        found.append(
            Status(
                StatusCode.STALE_TOPOLOGY,
                f"the member's topology has epoch {stale.said.topology_epoch}, the group's "
                f"{topics.topology.epoch}",
            )
        )
    if topics.configured.status is not None:
        found.append(topics.configured.status)
    if group.shutdown_by is not None:
        found.append(
            Status(
                StatusCode.SHUTDOWN_APPLICATION,
                f"member {group.shutdown_by!r} asked for the end of the application",
            )
        )
    return tuple(found)
