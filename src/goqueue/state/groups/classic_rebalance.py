"""The rebalance of a classic group: who is waited for, until when, and who is told what.

Members join and are parked until all have joined or the time is up; the leader gets everybody's
metadata and sends the assignment with its sync; then parked syncs are answered.
"""

from typing import Final

from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import JoinGroupResult, SyncGroupResult
from goqueue.state.groups.classic_group import ClassicGroup, ClassicMember
from goqueue.state.groups.gates import Gates
from goqueue.state.groups.registry import Registry, Timer
from goqueue.state.groups.states import ClassicState
from goqueue.state.machine import Outcome, Ticket

# A rebalance that nobody joined is tried again; members may have asked for a time-out of 0.
RETRY_FLOOR_MS: Final = 1_000


class ClassicRebalance:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._deadlines = registry.deadlines

    # --- rebalance ------------------------------------------------------------------------

    def start(self, group: ClassicGroup, now_ms: int, out: Outcome) -> None:
        if group.state is ClassicState.COMPLETING_REBALANCE:
            for member in group.members.values():
                if self.answer_sync(member, GroupError.REBALANCE_IN_PROGRESS, out):
                    self.start_session(group, member.member_id, member.session_timeout_ms, now_ms)
        group.pending_sync.clear()
        self._deadlines.cancel(Timer("sync", group.group_id))
        initial = group.is_empty
        group.transition(ClassicState.PREPARING_REBALANCE, now_ms)
        if initial:
            delay_ms = self._registry.settings.initial_rebalance_delay_ms
            group.new_member_added = False
            group.initial_delay_left_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            self._deadlines.set(Timer("join", group.group_id), now_ms + delay_ms)
        elif group.all_have_joined:
            self._complete_join(group, now_ms, out)
        else:
            timeout_ms = group.rebalance_timeout_ms
            self._deadlines.set(Timer("join", group.group_id), now_ms + timeout_ms)

    def advance(self, group: ClassicGroup, now_ms: int, out: Outcome) -> None:
        if group.state is not ClassicState.PREPARING_REBALANCE:
            self.start(group, now_ms, out)
        elif group.previous_state is not ClassicState.EMPTY and group.all_have_joined:
            self._complete_join(group, now_ms, out)

    def _complete_join(self, group: ClassicGroup, now_ms: int, out: Outcome) -> None:
        """Go on with those who have joined; static members who have not keep their place."""
        self._deadlines.cancel(Timer("join", group.group_id))
        for member in list(group.members.values()):
            if member.join_ticket is None and member.instance_id is None:
                self.remove(group, member, out)
        if group.members and not group.elect_joined_leader():
            # Only absent static members are left: wait until sessions end or somebody comes.
            retry_ms = max(group.rebalance_timeout_ms, RETRY_FLOOR_MS)
            self._deadlines.set(Timer("join", group.group_id), now_ms + retry_ms)
            return
        group.next_generation(now_ms)
        out.records.append(group.as_record())
        if group.is_empty:
            return
        for member in group.members.values():
            joined = group.set_join_ticket(member, None)
            if joined is not None:
                out.reply(joined, self.joined(group, member))
            member.is_new = False
            self.start_session(group, member.member_id, member.session_timeout_ms, now_ms)
            group.pending_sync.add(member.member_id)
        self._deadlines.set(Timer("sync", group.group_id), now_ms + group.rebalance_timeout_ms)

    def joined(
        self,
        group: ClassicGroup,
        member: ClassicMember,
        *,
        leader: str | None = None,
        skip_assignment: bool = False,
    ) -> JoinGroupResult:
        """What a member is told; only the leader, if not named otherwise, learns of the others."""
        leader = group.leader if leader is None else leader
        return JoinGroupResult(
            generation_id=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=leader or "",
            skip_assignment=skip_assignment,
            member_id=member.member_id,
            members=group.joined_members() if leader == member.member_id else (),
        )

    def touch(self, group: ClassicGroup, member_id: str, now_ms: int) -> None:
        """A sign of life; a new member whose join is still parked keeps its longer session."""
        member = group.members.get(member_id)
        if member is not None and not member.is_new:
            self.start_session(group, member_id, member.session_timeout_ms, now_ms)

    # --- timers ---------------------------------------------------------------------------

    def session_expired(
        self, group: ClassicGroup, member_id: str, now_ms: int, out: Outcome
    ) -> None:
        if member_id in group.pending_members:
            group.pending_members.discard(member_id)
        else:
            member = group.members.get(member_id)
            if member is None:
                return
            waiting = member.join_ticket is not None or member.sync_ticket is not None
            if waiting and not member.is_new:
                # It waits for us, not we for it; its session starts again with the answer.
                return
            self.remove(group, member, out)
            if group.state is not ClassicState.PREPARING_REBALANCE:
                self.start(group, now_ms, out)
                return
        if group.state is ClassicState.PREPARING_REBALANCE and group.all_have_joined:
            self._complete_join(group, now_ms, out)

    def join_expired(self, group: ClassicGroup, now_ms: int, out: Outcome) -> None:
        if group.state is not ClassicState.PREPARING_REBALANCE:
            return
        initial = group.previous_state is ClassicState.EMPTY
        if initial and group.new_member_added and group.initial_delay_left_ms > 0:
            usual_ms = self._registry.settings.initial_rebalance_delay_ms
            delay_ms = min(usual_ms, group.initial_delay_left_ms)
            group.new_member_added = False
            group.initial_delay_left_ms -= delay_ms
            self._deadlines.set(Timer("join", group.group_id), now_ms + delay_ms)
            return
        self._complete_join(group, now_ms, out)

    def sync_expired(self, group: ClassicGroup, now_ms: int, out: Outcome) -> None:
        if group.state not in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE):
            return
        if group.pending_sync:
            for member_id in list(group.pending_sync):
                self.remove(group, group.members[member_id], out)
            self.start(group, now_ms, out)

    def downgraded(self, group: ClassicGroup, now_ms: int, out: Outcome) -> None:
        # A member may have been quicker, and the rebalance has begun.
        if group.state is ClassicState.STABLE:
            self.start(group, now_ms, out)

    def gates_opened(self, group: ClassicGroup, gates: Gates, now_ms: int, out: Outcome) -> None:
        """A group that rebalances already learns of it with its next assignment."""
        if group.state is ClassicState.STABLE and not gates.is_complete(group):
            self.start(group, now_ms, out)

    def loaded(self, group: ClassicGroup, now_ms: int, out: Outcome) -> None:
        for member in group.members.values():
            self.start_session(group, member.member_id, member.session_timeout_ms, now_ms)
        too_many = len(group.members) > self._registry.settings.classic_max_size
        if too_many or group.was_rebalancing:
            self.start(group, now_ms, out)

    def answer_all(self, group: ClassicGroup, error: GroupError, out: Outcome) -> None:
        """Answer whatever is parked: the group ends here, or becomes one of another kind."""
        for member in group.members.values():
            self.answer_join(group, member, error, out)
            self.answer_sync(member, error, out)

    # --- parts ----------------------------------------------------------------------------

    def start_session(
        self, group: ClassicGroup, member_id: str, timeout_ms: int, now_ms: int
    ) -> None:
        self._registry.start_session(group.group_id, member_id, timeout_ms, now_ms)

    def remove(self, group: ClassicGroup, member: ClassicMember, out: Outcome) -> None:
        """Drop a member. If it is alive after all, the answer makes it join anew."""
        self._registry.end_session(group.group_id, member.member_id)
        self.answer_join(group, member, GroupError.UNKNOWN_MEMBER_ID, out)
        self.answer_sync(member, GroupError.UNKNOWN_MEMBER_ID, out)
        group.remove(member.member_id)

    def park_join(
        self,
        group: ClassicGroup,
        member: ClassicMember,
        ticket: Ticket[JoinGroupResult],
        out: Outcome,
    ) -> None:
        self.answer_join(group, member, GroupError.REBALANCE_IN_PROGRESS, out)
        group.set_join_ticket(member, ticket)

    def answer_join(
        self, group: ClassicGroup, member: ClassicMember, error: GroupError, out: Outcome
    ) -> None:
        parked = group.set_join_ticket(member, None)
        if parked is not None:
            out.reply(parked, JoinGroupResult(error=error, member_id=member.member_id))

    def answer_sync(self, member: ClassicMember, error: GroupError, out: Outcome) -> bool:
        parked, member.sync_ticket = member.sync_ticket, None
        if parked is not None:
            out.reply(parked, SyncGroupResult(error=error))
        return parked is not None
