"""Members that speak the classic protocol inside a consumer group, during a migration (KIP-848).

There is no leader: a join reports and reconciles like a consumer heartbeat, a sync reads the
result, and a heartbeat asks for another join whenever the member has a step to make.
"""

from dataclasses import replace

from goqueue.model.groups.consumer_protocol import (
    PROTOCOL_TYPE,
    MalformedProtocol,
    Subscription,
    read_subscription,
)
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import (
    UNKNOWN_MEMBER_ID,
    Heartbeat,
    HeartbeatResult,
    JoinGroup,
    JoinGroupResult,
    LeaveGroup,
    LeaveGroupResult,
    LeftMember,
    SyncGroup,
    SyncGroupResult,
)
from goqueue.state.groups import migration
from goqueue.state.groups.consumer import ConsumerProtocol, check_static, taken_over
from goqueue.state.groups.consumer_group import ConsumerGroup, ConsumerMember, said_bytes
from goqueue.state.groups.records import ClassicProtocols, ConsumerMemberValue
from goqueue.state.groups.refused import Refused
from goqueue.state.groups.registry import Registry, Timer, TimerKind
from goqueue.state.groups.states import MemberState
from goqueue.state.machine import Outcome, Ticket


class ClassicMembers:
    def __init__(self, registry: Registry, consumer: ConsumerProtocol) -> None:
        self._registry = registry
        self._consumer = consumer

    def join(
        self,
        group: ConsumerGroup,
        request: JoinGroup,
        ticket: Ticket[JoinGroupResult],
        now_ms: int,
        out: Outcome,
    ) -> None:
        is_new = request.member_id == UNKNOWN_MEMBER_ID
        self._consumer.check_room(group, request.member_id)
        if not group.supports_classic(request.protocol_type, request.protocols):
            raise Refused(GroupError.INCONSISTENT_GROUP_PROTOCOL)
        try:
            subscription = read_subscription(request.protocols[0].metadata)
        except MalformedProtocol:
            raise Refused(GroupError.INCONSISTENT_GROUP_PROTOCOL) from None
        instance_id = request.group_instance_id
        prefix = request.client.client_id if instance_id is None else instance_id
        member_id = f"{prefix}-{self._registry.new_id()}" if is_new else request.member_id
        if is_new and instance_id is None and request.requires_known_member_id:
            error = GroupError.MEMBER_ID_REQUIRED
            out.reply(ticket, JoinGroupResult(error=error, member_id=member_id))
            return
        known = group.static_member(instance_id)
        if instance_id is None:
            member = group.members.get(member_id) or ConsumerMember(member_id)
        elif not is_new:
            member = check_static(known, instance_id, member_id)
        else:
            member = taken_over(known, member_id) if known else ConsumerMember(member_id)
        replaced = known if known is not None and known.member_id != member_id else None
        said = _said(member.said, request, subscription)
        is_known = member.member_id in group.members or replaced is not None
        self._registry.check_said(
            group.group_id,
            group.subscription_bytes,
            said_bytes(member.said) if is_known else None,
            said_bytes(said),
        )
        if replaced is not None and self._may_downgrade(group, replaced, said):
            updated = self._downgrade(group, replaced, member, said, now_ms, out)
        else:
            owned = migration.topic_ids(subscription.owned, self._registry.topics)
            updated = self._consumer.step(
                group,
                member,
                said,
                replaced=replaced.member_id if replaced is not None else None,
                owned=owned,
                now_ms=now_ms,
                out=out,
            )
            self._registry.deadlines.cancel(self._timer("member-join", group, member_id))
            self._start_session(group, updated, now_ms)
            self._registry.deadlines.set(
                self._timer("member-sync", group, member_id), now_ms + said.rebalance_timeout_ms
            )
        out.reply(
            ticket,
            JoinGroupResult(
                generation_id=updated.epoch,
                protocol_type=PROTOCOL_TYPE,
                protocol_name=request.protocols[0].name,
                member_id=member_id,
            ),
        )

    def _may_downgrade(
        self, group: ConsumerGroup, replaced: ConsumerMember, said: ConsumerMemberValue
    ) -> bool:
        members = [m for m in group.members.values() if m.member_id != replaced.member_id]
        return migration.may_downgrade(
            [*members, ConsumerMember("", said)], self._registry.settings
        )

    def _downgrade(
        self,
        group: ConsumerGroup,
        replaced: ConsumerMember,
        member: ConsumerMember,
        said: ConsumerMemberValue,
        now_ms: int,
        out: Outcome,
    ) -> ConsumerMember:
        """The last consumer-protocol member, a static one, came back with the classic protocol."""
        updated = ConsumerMember(member.member_id, said, replace(member.current, epoch=group.epoch))
        self._registry.cancel_member_timers(group.group_id, replaced.member_id)
        staying = [m for m in group.members.values() if m.member_id != replaced.member_id]
        out.records += migration.downgrade(group, [*staying, updated], self._registry, now_ms)
        self._registry.deadlines.set(Timer("downgraded", group.group_id), now_ms)
        return updated

    def sync(
        self,
        group: ConsumerGroup,
        request: SyncGroup,
        ticket: Ticket[SyncGroupResult],
        now_ms: int,
        out: Outcome,
    ) -> None:
        member, classic = self._member(group, request.member_id, request.group_instance_id)
        self._check_generation(member, request.generation_id)
        if request.protocol_type not in (None, PROTOCOL_TYPE) or (
            request.protocol_name not in (None, classic.protocols[0][0])
        ):
            raise Refused(GroupError.INCONSISTENT_GROUP_PROTOCOL)
        if group.epoch > member.epoch and member.current.state is not MemberState.UNREVOKED:
            self._expect_join(group, member, now_ms)
            raise Refused(GroupError.REBALANCE_IN_PROGRESS)
        self._registry.deadlines.cancel(self._timer("member-sync", group, member.member_id))
        self._start_session(group, member, now_ms)
        assigned = migration.embedded_assignment(
            classic, member.current.assigned, self._registry.topics
        )
        out.reply(
            ticket,
            SyncGroupResult(
                protocol_type=PROTOCOL_TYPE,
                protocol_name=classic.protocols[0][0],
                assignment=assigned,
            ),
        )

    def heartbeat(
        self,
        group: ConsumerGroup,
        request: Heartbeat,
        ticket: Ticket[HeartbeatResult],
        now_ms: int,
        out: Outcome,
    ) -> None:
        member, _ = self._member(group, request.member_id, request.group_instance_id)
        self._check_generation(member, request.generation_id)
        self._start_session(group, member, now_ms)
        state = member.current.state
        must_rejoin = (
            self._consumer.notice_topics(group, out) > member.epoch
            or state is MemberState.UNREVOKED
            or (state is MemberState.UNRELEASED and not group.waits_for_others(member))
        )
        if must_rejoin:
            self._expect_join(group, member, now_ms)
        error = GroupError.REBALANCE_IN_PROGRESS if must_rejoin else GroupError.NONE
        out.reply(ticket, HeartbeatResult(error=error))

    def leave(
        self,
        group: ConsumerGroup,
        request: LeaveGroup,
        ticket: Ticket[LeaveGroupResult],
        now_ms: int,
        out: Outcome,
    ) -> None:
        left: list[LeftMember] = []
        leaving: list[str] = []
        for one in request.members:
            error = GroupError.NONE
            try:
                if one.group_instance_id is None:
                    leaving.append(group.member(one.member_id).member_id)
                else:
                    known = group.static_member(one.group_instance_id)
                    # An administrator may remove a static member by its instance id alone.
                    member_id = one.member_id or (known.member_id if known else "")
                    leaving.append(check_static(known, one.group_instance_id, member_id).member_id)
            except Refused as refused:
                error = refused.error
            left.append(
                LeftMember(
                    member_id=one.member_id, group_instance_id=one.group_instance_id, error=error
                )
            )
        self._consumer.remove(group, leaving, now_ms, out)
        out.reply(ticket, LeaveGroupResult(members=tuple(left)))

    def _member(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None
    ) -> tuple[ConsumerMember, ClassicProtocols]:
        if instance_id is None:
            member = group.member(member_id)
        else:
            member = check_static(group.static_member(instance_id), instance_id, member_id)
        if member.said.classic is None:
            raise Refused(GroupError.UNKNOWN_MEMBER_ID)
        return member, member.said.classic

    def _check_generation(self, member: ConsumerMember, generation: int) -> None:
        if generation != member.epoch:
            raise Refused(GroupError.ILLEGAL_GENERATION)

    def _start_session(self, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
        assert member.said.classic is not None
        timeout_ms = member.said.classic.session_timeout_ms
        self._registry.start_session(group.group_id, member.member_id, timeout_ms, now_ms)

    def _expect_join(self, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
        timer = self._timer("member-join", group, member.member_id)
        self._registry.deadlines.set_if_absent(timer, now_ms + member.said.rebalance_timeout_ms)

    def _timer(self, kind: TimerKind, group: ConsumerGroup, member_id: str) -> Timer:
        return Timer(kind, group.group_id, member_id)


def _said(
    before: ConsumerMemberValue, request: JoinGroup, subscription: Subscription
) -> ConsumerMemberValue:
    rebalance_timeout_ms = request.rebalance_timeout_ms
    if rebalance_timeout_ms < 0:
        rebalance_timeout_ms = request.session_timeout_ms
    return ConsumerMemberValue(
        instance_id=request.group_instance_id or before.instance_id,
        rack_id=subscription.rack_id or before.rack_id,
        client_id=request.client.client_id,
        client_host=request.client.host,
        rebalance_timeout_ms=rebalance_timeout_ms,
        topics=tuple(sorted(set(subscription.topics))),
        assignor=before.assignor,
        classic=ClassicProtocols(
            request.session_timeout_ms, tuple((p.name, p.metadata) for p in request.protocols)
        ),
    )
