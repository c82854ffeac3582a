"""Commands and timers of classic groups (with KIP-345, 394, 559, 800, 814).

A rebalance: members join and are parked until all have joined or the time is up; the leader gets
everybody's metadata, assigns, and sends the result with its sync; parked syncs are then answered.
"""

from typing import Final

from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import (
    UNKNOWN_MEMBER_ID,
    Heartbeat,
    HeartbeatResult,
    JoinGroup,
    JoinGroupResult,
    LeaveGroup,
    LeaveGroupResult,
    LeavingMember,
    LeftMember,
    SyncGroup,
    SyncGroupResult,
)
from goqueue.state.groups.classic_group import ClassicGroup, ClassicMember, size_bytes
from goqueue.state.groups.classic_rebalance import ClassicRebalance
from goqueue.state.groups.gates import Gates
from goqueue.state.groups.records import ClassicGroupKey, ClassicGroupValue, record
from goqueue.state.groups.refused import Refused
from goqueue.state.groups.registry import Registry, Timer
from goqueue.state.groups.states import ClassicState
from goqueue.state.machine import Outcome, Ticket

# New members that were told their id and have not come back with it are remembered for a session.
# Any client can make them, so there is an end to it; real groups have a handful.
PENDING_MEMBERS_MAX: Final = 10_000

_EMPTY_GROUP: Final = ClassicGroupValue(None, 0, None, None, -1, ())


class ClassicProtocol:
    def __init__(self, registry: Registry, rebalance: ClassicRebalance, gates: Gates) -> None:
        self._registry = registry
        self._gates = gates
        self._rebalance = rebalance

    # --- join -----------------------------------------------------------------------------

    def join(
        self, request: JoinGroup, ticket: Ticket[JoinGroupResult], now_ms: int, out: Outcome
    ) -> None:
        """Join a classic group; a new member may make it, in the place of an empty other one."""
        group = self._registry.groups.get(request.group_id)
        if isinstance(group, ClassicGroup):
            self._join(group, request, ticket, now_ms, out)
            return
        if request.member_id != UNKNOWN_MEMBER_ID:
            raise Refused(GroupError.UNKNOWN_MEMBER_ID)
        made = ClassicGroup(request.group_id, state_since_ms=now_ms)
        self._check_protocols(made, request)
        self._check_bytes(made, request)
        if group is not None:
            out.records += group.tombstones()
        out.records.append(record(ClassicGroupKey(request.group_id), _EMPTY_GROUP))
        self._registry.groups[request.group_id] = made
        self._join(made, request, ticket, now_ms, out)

    def _join(
        self,
        group: ClassicGroup,
        request: JoinGroup,
        ticket: Ticket[JoinGroupResult],
        now_ms: int,
        out: Outcome,
    ) -> None:
        if not self._has_room(group, request.member_id):
            out.reply(ticket, JoinGroupResult(error=GroupError.GROUP_MAX_SIZE_REACHED))
            self._drop_surplus(group, request.member_id, now_ms, out)
            return
        self._check_protocols(group, request)
        self._check_bytes(group, request)
        if request.member_id == UNKNOWN_MEMBER_ID:
            self._join_new(group, request, ticket, now_ms, out)
        elif request.member_id in group.pending_members:
            if request.group_instance_id is not None:
                raise Refused(GroupError.UNKNOWN_MEMBER_ID)
            self._add(group, request, request.member_id, ticket, now_ms, out)
        else:
            group.check_member(request.member_id, request.group_instance_id)
            member = group.members[request.member_id]
            self._rejoin(group, member, request, ticket, now_ms, out)

    def _join_new(
        self,
        group: ClassicGroup,
        request: JoinGroup,
        ticket: Ticket[JoinGroupResult],
        now_ms: int,
        out: Outcome,
    ) -> None:
        instance_id = request.group_instance_id
        prefix = request.client.client_id if instance_id is None else instance_id
        member_id = f"{prefix}-{self._registry.new_id()}"
        if instance_id is not None:
            existing = group.static_members.get(instance_id)
            if existing is None:
                self._add(group, request, member_id, ticket, now_ms, out)
            else:
                self._replace_static(
                    group, group.members[existing], member_id, request, ticket, now_ms, out
                )
        elif request.requires_known_member_id:
            if len(group.pending_members) >= PENDING_MEMBERS_MAX:
                raise Refused(GroupError.GROUP_MAX_SIZE_REACHED)
            group.pending_members.add(member_id)
            self._rebalance.start_session(group, member_id, request.session_timeout_ms, now_ms)
            out.reply(
                ticket,
                JoinGroupResult(error=GroupError.MEMBER_ID_REQUIRED, member_id=member_id),
            )
        else:
            self._add(group, request, member_id, ticket, now_ms, out)

    def _add(
        self,
        group: ClassicGroup,
        request: JoinGroup,
        member_id: str,
        ticket: Ticket[JoinGroupResult],
        now_ms: int,
        out: Outcome,
    ) -> None:
        if (
            group.state is ClassicState.PREPARING_REBALANCE
            and group.previous_state is ClassicState.EMPTY
        ):
            group.new_member_added = True
        group.add(
            ClassicMember(
                member_id=member_id,
                instance_id=request.group_instance_id,
                client=request.client,
                rebalance_timeout_ms=_rebalance_timeout_ms(request),
                session_timeout_ms=request.session_timeout_ms,
                protocol_type=request.protocol_type,
                protocols=request.protocols,
                is_new=True,
                join_ticket=ticket,
            )
        )
        self._rebalance.start_session(
            group, member_id, self._registry.settings.new_member_join_timeout_ms, now_ms
        )
        self._rebalance.advance(group, now_ms, out)

    def _rejoin(
        self,
        group: ClassicGroup,
        member: ClassicMember,
        request: JoinGroup,
        ticket: Ticket[JoinGroupResult],
        now_ms: int,
        out: Outcome,
    ) -> None:
        same = member.protocols == request.protocols
        is_leader = group.leader == member.member_id
        if same and (
            group.state is ClassicState.COMPLETING_REBALANCE
            or (group.state is ClassicState.STABLE and not is_leader)
        ):
            # Its join was answered, but the answer may have been lost. (A leader that rejoins a
            # stable group wants a rebalance: it saw a change that members' metadata does not show.)
            out.reply(ticket, self._rebalance.joined(group, member))
            return
        self._update(group, member, request)
        self._rebalance.park_join(group, member, ticket, out)
        self._rebalance.advance(group, now_ms, out)

    def _replace_static(
        self,
        group: ClassicGroup,
        member: ClassicMember,
        new_id: str,
        request: JoinGroup,
        ticket: Ticket[JoinGroupResult],
        now_ms: int,
        out: Outcome,
    ) -> None:
        """A static member came back and takes over, if possible without a rebalance (KIP-345)."""
        leader_before = group.leader
        self._registry.end_session(group.group_id, member.member_id)
        self._rebalance.answer_join(group, member, GroupError.FENCED_INSTANCE_ID, out)
        self._rebalance.answer_sync(member, GroupError.FENCED_INSTANCE_ID, out)
        group.rename(member, new_id)
        member.client = request.client
        self._update(group, member, request)
        self._rebalance.start_session(group, new_id, member.session_timeout_ms, now_ms)
        if group.state is ClassicState.STABLE and group.protocol_name == group.select_protocol():
            out.records.append(group.as_record())
            answer = self._rebalance.joined(group, member, leader=leader_before)
            if request.supports_skipping_assignment:
                answer = self._rebalance.joined(
                    group, member, skip_assignment=group.leader == new_id
                )
            out.reply(ticket, answer)
            return
        self._rebalance.park_join(group, member, ticket, out)
        if group.state is ClassicState.COMPLETING_REBALANCE:
            # The leader may be assigning to the old id right now.
            self._rebalance.start(group, now_ms, out)
        else:
            self._rebalance.advance(group, now_ms, out)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        limit = self._registry.settings.classic_max_size
        if group.is_empty:
            return True
        member = group.members.get(member_id)
        if group.state is ClassicState.PREPARING_REBALANCE:
            # Counting those who have rejoined drops the last ones when the limit was lowered.
            joined = member is not None and member.join_ticket is not None
            return joined or group.awaiting_join_count < limit
        return member is not None or len(group.members) < limit

    def _drop_surplus(self, group: ClassicGroup, member_id: str, now_ms: int, out: Outcome) -> None:
        group.pending_members.discard(member_id)
        if member_id in group.members:
            self._rebalance.remove(group, group.members[member_id], out)
        if group.state is ClassicState.PREPARING_REBALANCE:
            self._rebalance.advance(group, now_ms, out)

    def _check_bytes(self, group: ClassicGroup, request: JoinGroup) -> None:
        known_id = group.static_members.get(request.group_instance_id or "", request.member_id)
        known = group.members.get(known_id)
        self._registry.check_said(
            group.group_id,
            group.subscription_bytes,
            None if known is None else size_bytes(known.protocols),
            size_bytes(request.protocols),
        )

    def _check_protocols(self, group: ClassicGroup, request: JoinGroup) -> None:
        if not group.supports(request.protocol_type, request.protocols):
            raise Refused(GroupError.INCONSISTENT_GROUP_PROTOCOL)

    def _update(self, group: ClassicGroup, member: ClassicMember, request: JoinGroup) -> None:
        group.update(
            member,
            request.protocols,
            rebalance_timeout_ms=_rebalance_timeout_ms(request),
            session_timeout_ms=request.session_timeout_ms,
        )

    # --- sync, heartbeat, leave -----------------------------------------------------------

    def sync(
        self,
        group: ClassicGroup,
        request: SyncGroup,
        ticket: Ticket[SyncGroupResult],
        now_ms: int,
        out: Outcome,
    ) -> None:
        if group.is_empty:
            raise Refused(GroupError.UNKNOWN_MEMBER_ID)
        group.check_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation:
            raise Refused(GroupError.ILLEGAL_GENERATION)
        if _differ(request.protocol_type, group.protocol_type) or _differ(
            request.protocol_name, group.protocol_name
        ):
            raise Refused(GroupError.INCONSISTENT_GROUP_PROTOCOL)
        if group.state is ClassicState.PREPARING_REBALANCE:
            raise Refused(GroupError.REBALANCE_IN_PROGRESS)
        member = group.members[request.member_id]
        if group.leader == member.member_id:
            self._check_assignments(group, request)
        group.pending_sync.discard(member.member_id)
        if not group.pending_sync:
            self._registry.deadlines.cancel(Timer("sync", group.group_id))
        if group.state is ClassicState.STABLE:
            out.reply(ticket, self._synced(group, member))
            return
        self._rebalance.answer_sync(member, GroupError.REBALANCE_IN_PROGRESS, out)
        member.sync_ticket = ticket
        if group.leader == member.member_id:
            self._stabilize(group, request, now_ms, out)

    def _check_assignments(self, group: ClassicGroup, request: SyncGroup) -> None:
        before = sum(len(member.assignment) for member in group.members.values())
        sizes = [len(request.assignments.get(member_id, b"")) for member_id in group.members]
        if (
            max(sizes) > self._registry.settings.member_max_bytes
            or sum(sizes) > self._registry.settings.group_max_bytes
            or sum(sizes) - before > max(0, self._registry.spare_bytes(group.group_id))
        ):
            raise Refused(GroupError.GROUP_MAX_SIZE_REACHED)

    def _stabilize(
        self, group: ClassicGroup, request: SyncGroup, now_ms: int, out: Outcome
    ) -> None:
        assignments = self._gates.gated(group, request.assignments)
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        group.transition(ClassicState.STABLE, now_ms)
        out.records.append(group.as_record())
        for member in group.members.values():
            if member.sync_ticket is not None:
                out.reply(member.sync_ticket, self._synced(group, member))
                member.sync_ticket = None
                self._rebalance.start_session(
                    group, member.member_id, member.session_timeout_ms, now_ms
                )

    def _synced(self, group: ClassicGroup, member: ClassicMember) -> SyncGroupResult:
        return SyncGroupResult(
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            assignment=member.assignment,
        )

    def heartbeat(
        self,
        group: ClassicGroup,
        request: Heartbeat,
        ticket: Ticket[HeartbeatResult],
        now_ms: int,
        out: Outcome,
    ) -> None:
        group.check_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation:
            raise Refused(GroupError.ILLEGAL_GENERATION)
        self._rebalance.touch(group, request.member_id, now_ms)
        preparing = group.state is ClassicState.PREPARING_REBALANCE
        error = GroupError.REBALANCE_IN_PROGRESS if preparing else GroupError.NONE
        out.reply(ticket, HeartbeatResult(error=error))

    def leave(
        self,
        group: ClassicGroup,
        request: LeaveGroup,
        ticket: Ticket[LeaveGroupResult],
        now_ms: int,
        out: Outcome,
    ) -> None:
        members_before = len(group.members)
        left = tuple(self._leave_one(group, member, out) for member in request.members)
        out.reply(ticket, LeaveGroupResult(members=left))
        preparing = group.state is ClassicState.PREPARING_REBALANCE
        if preparing or len(group.members) < members_before:
            self._rebalance.advance(group, now_ms, out)

    def _leave_one(self, group: ClassicGroup, leaving: LeavingMember, out: Outcome) -> LeftMember:
        member_id, instance_id = leaving.member_id, leaving.group_instance_id
        error = GroupError.NONE
        if member_id in group.pending_members:
            group.remove(member_id)
            self._registry.end_session(group.group_id, member_id)
        else:
            if member_id == UNKNOWN_MEMBER_ID and instance_id is not None:
                # An administrator may remove a static member by its instance id alone.
                known = group.static_members.get(instance_id, UNKNOWN_MEMBER_ID)
            else:
                known = member_id
            try:
                group.check_member(known, instance_id)
                self._rebalance.remove(group, group.members[known], out)
            except Refused as refused:
                error = refused.error
        return LeftMember(member_id=member_id, group_instance_id=instance_id, error=error)


def _rebalance_timeout_ms(request: JoinGroup) -> int:
    """JoinGroup 0 has none and uses the session's."""
    given = request.rebalance_timeout_ms
    return given if given >= 0 else request.session_timeout_ms


def _differ(asked: str | None, held: str | None) -> bool:
    return asked is not None and held is not None and asked != held
