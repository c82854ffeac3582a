"""Commands and timers of consumer groups (KIP-848): the heartbeat joins, reports and leaves."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from uuid import UUID

from goqueue.model.groups.assignment import NOTHING, Assignment
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatResult,
    GroupKind,
)
from goqueue.state.groups import migration
from goqueue.state.groups.classic_group import ClassicGroup
from goqueue.state.groups.classic_rebalance import ClassicRebalance
from goqueue.state.groups.consumer_group import (
    ConsumerGroup,
    ConsumerMember,
    digest_of,
    said_bytes,
    search_of,
)
from goqueue.state.groups.consumer_requests import (
    check_request,
    is_full,
    said_by,
    says_nothing_new,
)
from goqueue.state.groups.gates import Gates
from goqueue.state.groups.group import Group
from goqueue.state.groups.reconciliation import reconcile
from goqueue.state.groups.records import ConsumerMemberValue
from goqueue.state.groups.refused import Refused
from goqueue.state.groups.registry import Registry, Timer
from goqueue.state.groups.share_group import ShareGroup
from goqueue.state.groups.states import MemberState
from goqueue.state.groups.streams.group import StreamsGroup
from goqueue.state.groups.target_assignment import compute_target
from goqueue.state.groups.topic_regex import InvalidRegex, Search
from goqueue.state.machine import Outcome, Ticket


class ConsumerProtocol:
    def __init__(self, registry: Registry, classic: ClassicRebalance, gates: Gates) -> None:
        self._registry = registry
        self._gates = gates
        self._classic = classic

    # --- the heartbeat --------------------------------------------------------------------

    def heartbeat(
        self,
        request: ConsumerGroupHeartbeat,
        ticket: Ticket[ConsumerGroupHeartbeatResult],
        now_ms: int,
        out: Outcome,
    ) -> None:
        group = self._registry.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup) and says_nothing_new(group, request):
            self._touch(request.group_id, request.member_id, now_ms)
            out.reply(ticket, self._result(request, request.member_id, request.member_epoch, None))
            return
        check_request(request)
        if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            self._leave(request, ticket, now_ms, out)
        else:
            self._check_said(group, request)
            self._regular(request, ticket, now_ms, out)

    def _check_said(self, found: Group | None, request: ConsumerGroupHeartbeat) -> None:
        group = found if isinstance(found, ConsumerGroup) else None
        known = None
        if group is not None:
            known = group.static_member(request.instance_id) or group.members.get(request.member_id)
        says_topics = request.subscribed_topics is not None or request.subscribed_regex is not None
        if known is not None and not says_topics:
            return
        before = ConsumerMemberValue() if known is None else known.said
        self._registry.check_said(
            request.group_id,
            0 if group is None else group.subscription_bytes,
            None if known is None else said_bytes(before),
            said_bytes(said_by(before, request)),
        )

    def _regular(
        self,
        request: ConsumerGroupHeartbeat,
        ticket: Ticket[ConsumerGroupHeartbeatResult],
        now_ms: int,
        out: Outcome,
    ) -> None:
        joining = request.member_epoch == JOIN_EPOCH
        if request.subscribed_regex:
            self._check_search(Search(request.subscribed_regex, request.client.viewer))
        group = self._group(request, now_ms, out)
        self.check_room(group, request.member_id)
        member_id = request.member_id or self._registry.new_id()
        if request.instance_id is None:
            member = group.members.get(member_id) or ConsumerMember(member_id)
            if not joining:
                _check_epoch(group.member(member_id), request)
        else:
            member = self._static_member(group, request, member_id)
        replaced = group.static_members.get(request.instance_id or "")
        updated = self.step(
            group,
            member,
            said_by(member.said, request),
            replaced=replaced if replaced != member_id else None,
            owned=request.owned,
            now_ms=now_ms,
            out=out,
        )
        self._touch(request.group_id, member_id, now_ms)
        changed = updated.current.assigned != member.current.assigned
        told = updated.current.assigned if joining or changed or is_full(request) else None
        out.reply(ticket, self._result(request, member_id, updated.epoch, told))

    def _group(self, request: ConsumerGroupHeartbeat, now_ms: int, out: Outcome) -> ConsumerGroup:
        """The group to work on; a new or converted one is a draft until it is replayed."""
        group = self._registry.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if request.member_epoch != JOIN_EPOCH or isinstance(group, ShareGroup | StreamsGroup):
            raise Refused(GroupError.GROUP_ID_NOT_FOUND, f"no consumer group {request.group_id!r}")
        made = ConsumerGroup(request.group_id, self._registry.regexes)
        if group is None:
            return made
        if group.is_empty:
            out.records += group.tombstones()
            return made
        return self._upgrade(group, request.member_id, now_ms, out)

    def _upgrade(
        self, classic: ClassicGroup, member_id: str, now_ms: int, out: Outcome
    ) -> ConsumerGroup:
        group = migration.upgraded(classic, self._registry)
        self.check_room(group, member_id)
        out.records += classic.tombstones()
        out.records += group.records()
        for kind in ("join", "sync"):
            self._registry.deadlines.cancel(Timer(kind, classic.group_id))
        self._classic.answer_all(classic, GroupError.REBALANCE_IN_PROGRESS, out)
        for member in classic.members.values():
            self._registry.start_session(
                classic.group_id, member.member_id, member.session_timeout_ms, now_ms
            )
        return group

    def _static_member(
        self, group: ConsumerGroup, request: ConsumerGroupHeartbeat, member_id: str
    ) -> ConsumerMember:
        known = group.static_member(request.instance_id)
        if request.member_epoch != JOIN_EPOCH:
            known = check_static(known, request.instance_id, member_id)
            _check_epoch(known, request)
            return known
        if known is None:
            return group.members.get(member_id) or ConsumerMember(member_id)
        if not known.uses_classic_protocol and known.epoch != STATIC_LEAVE_EPOCH:
            raise Refused(
                GroupError.UNRELEASED_INSTANCE_ID,
                f"instance id {request.instance_id!r} is in use by member {known.member_id!r}",
            )
        return taken_over(known, member_id)

    def check_room(self, group: ConsumerGroup, member_id: str) -> None:
        limit = self._registry.settings.consumer_max_size
        if len(group.members) >= limit and member_id not in group.members:
            raise Refused(
                GroupError.GROUP_MAX_SIZE_REACHED, f"the group has reached its limit of {limit}"
            )

    def _check_search(self, search: Search) -> None:
        try:
            self._registry.regexes.check(search)
        except InvalidRegex as error:
            raise Refused(GroupError.INVALID_REGULAR_EXPRESSION, str(error)) from error

    def _touch(self, group_id: str, member_id: str, now_ms: int) -> None:
        times = self._registry.member_times(group_id, GroupKind.CONSUMER)
        self._registry.start_session(group_id, member_id, times.session_timeout_ms, now_ms)

    def _result(
        self,
        request: ConsumerGroupHeartbeat,
        member_id: str,
        epoch: int,
        assigned: Assignment | None,
    ) -> ConsumerGroupHeartbeatResult:
        times = self._registry.member_times(request.group_id, GroupKind.CONSUMER)
        return ConsumerGroupHeartbeatResult(
            member_id=member_id,
            member_epoch=epoch,
            heartbeat_interval_ms=times.heartbeat_interval_ms,
            assignment=assigned,
        )

    # --- one step of one member, whichever protocol it speaks -----------------------------

    def step(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        said: ConsumerMemberValue,
        *,
        replaced: str | None,
        owned: Assignment | None,
        now_ms: int,
        out: Outcome,
    ) -> ConsumerMember:
        """Record what the member said, bump the epoch and assign anew if that changes anything,
        and bring the member closer to its target. `replaced`: the static member it takes over."""
        member_id = member.member_id
        updated = replace(member, said=said)
        targets: Mapping[str, Assignment] = group.targets
        if replaced is not None:
            inherited = group.targets.get(replaced, NOTHING)
            targets = {m: t for m, t in targets.items() if m != replaced} | {member_id: inherited}
            out.records += group.member_tombstones(replaced)
            out.records += [group.said_record(updated), group.target_record(member_id, inherited)]
            self._registry.cancel_member_timers(group.group_id, replaced)
        elif said != member.said or member_id not in group.members:
            out.records.append(group.said_record(updated))
        changed = group.topics_of(said) != group.topics_of(member.said)
        changed = changed or said.regex != member.said.regex
        members = group.members
        if group.epoch == 0 or changed or group.topics_changed:
            members = {m: held for m, held in members.items() if m != replaced}
            members[member_id] = updated
        epoch = self._next_epoch(group, members, bump=group.epoch == 0 or changed, out=out)
        target = targets.get(member_id, NOTHING)
        if epoch > group.assignment_epoch:
            if members is group.members:
                members = members | {member_id: updated}
            computed = compute_target(
                group,
                epoch=epoch,
                members=members,
                targets=targets,
                topics=self._registry.topics,
                gates=self._gates,
            )
            out.records += computed.records
            target = computed.by_member[member_id]
        return self._reconcile(
            group, updated, target, max(epoch, group.assignment_epoch), changed, replaced, owned,
            now_ms, out,
        )  # fmt: skip

    def _next_epoch(
        self,
        group: ConsumerGroup,
        members: Mapping[str, ConsumerMember],
        *,
        bump: bool,
        out: Outcome,
    ) -> int:
        if not bump and not group.topics_changed:
            return group.epoch
        digest = self._digest(group, members)
        group.topics_changed = False
        if not bump and digest == group.topics_digest:
            return group.epoch
        out.records.append(group.epoch_record(group.epoch + 1, digest))
        return group.epoch + 1

    def _digest(self, group: ConsumerGroup, members: Mapping[str, ConsumerMember]) -> int:
        names = frozenset().union(*(group.topics_of(m.said) for m in members.values()))
        withheld = partial(self._gates.withheld, group.group_id)
        searches = {search_of(m.said) for m in members.values() if m.said.viewer is not None}
        seen = [(each, group.regexes.topics(each)) for each in searches]
        return digest_of(names, self._registry.topics, withheld, seen)

    def _reconcile(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        target: Assignment,
        target_epoch: int,
        subscription_changed: bool,
        replaced: str | None,
        owned: Assignment | None,
        now_ms: int,
        out: Outcome,
    ) -> ConsumerMember:
        own = (None, member.member_id, replaced)

        def taken(topic_id: UUID, partition: int) -> bool:
            return group.owner(topic_id, partition) not in own

        current = reconcile(
            member.current,
            target_epoch=target_epoch,
            target=target,
            subscribed=self._registry.topics.ids_of(group.topics_of(member.said)),
            taken=taken,
            owned=owned,
            subscription_changed=subscription_changed,
        )
        if current == member.current and replaced is None:
            return member
        updated = replace(member, current=current)
        out.records.append(group.current_record(updated))
        timer = Timer("revoke", group.group_id, member.member_id)
        if current.state is MemberState.UNREVOKED and not member.uses_classic_protocol:
            self._registry.deadlines.set(timer, now_ms + member.said.rebalance_timeout_ms)
        else:
            self._registry.deadlines.cancel(timer)
        return updated

    def notice_topics(self, group: ConsumerGroup, out: Outcome) -> int:
        """Bump the epoch if the topics changed; for members that do not speak KIP-848."""
        return self._next_epoch(group, group.members, bump=False, out=out)

    # --- leaving --------------------------------------------------------------------------

    def _leave(
        self,
        request: ConsumerGroupHeartbeat,
        ticket: Ticket[ConsumerGroupHeartbeatResult],
        now_ms: int,
        out: Outcome,
    ) -> None:
        group = self._registry.groups.get(request.group_id)
        if not isinstance(group, ConsumerGroup):
            raise Refused(GroupError.GROUP_ID_NOT_FOUND, f"no consumer group {request.group_id!r}")
        if request.instance_id is None:
            member = group.member(request.member_id)
        else:
            known = group.static_member(request.instance_id)
            member = check_static(known, request.instance_id, request.member_id)
        if request.member_epoch == STATIC_LEAVE_EPOCH and request.instance_id is not None:
            # It keeps its partitions for its successor until the session ends.
            away = replace(
                member.current,
                epoch=STATIC_LEAVE_EPOCH,
                state=MemberState.STABLE,
                pending_revocation=NOTHING,
            )
            out.records.append(group.current_record(replace(member, current=away)))
            self._registry.deadlines.cancel(Timer("revoke", group.group_id, member.member_id))
        else:
            self.remove(group, [member.member_id], now_ms, out)
        out.reply(
            ticket,
            ConsumerGroupHeartbeatResult(
                member_id=request.member_id, member_epoch=request.member_epoch
            ),
        )

    def remove(
        self, group: ConsumerGroup, member_ids: Collection[str], now_ms: int, out: Outcome
    ) -> None:
        """Take members out, of their own will or not; the others get their partitions."""
        leaving = [m for m in member_ids if m in group.members]
        if not leaving:
            return
        for member_id in leaving:
            self._registry.cancel_member_timers(group.group_id, member_id)
        staying = {m: held for m, held in group.members.items() if m not in leaving}
        if migration.may_downgrade(staying.values(), self._registry.settings):
            out.records += migration.downgrade(group, staying.values(), self._registry, now_ms)
            timer = Timer("downgraded", group.group_id)
            self._registry.deadlines.set(timer, now_ms)
            return
        for member_id in leaving:
            out.records += group.member_tombstones(member_id)
        digest = self._digest(group, staying)
        out.records.append(group.epoch_record(group.epoch + 1, digest))

    def loaded(self, group: ConsumerGroup, now_ms: int) -> None:
        for member in group.members.values():
            classic = member.said.classic
            if classic is not None:
                timeout_ms = classic.session_timeout_ms
                self._registry.start_session(group.group_id, member.member_id, timeout_ms, now_ms)
                continue
            self._touch(group.group_id, member.member_id, now_ms)
            if member.current.state is MemberState.UNREVOKED:
                timer = Timer("revoke", group.group_id, member.member_id)
                self._registry.deadlines.set(timer, now_ms + member.said.rebalance_timeout_ms)


def taken_over(member: ConsumerMember, member_id: str) -> ConsumerMember:
    """A static member under its new id: it starts from epoch 0 with what it had."""
    current = replace(member.current, epoch=0, previous_epoch=0)
    return ConsumerMember(member_id, member.said, current)


def check_static(
    known: ConsumerMember | None, instance_id: str | None, member_id: str
) -> ConsumerMember:
    if known is None:
        raise Refused(GroupError.UNKNOWN_MEMBER_ID, f"no member has instance id {instance_id!r}")
    if known.member_id != member_id:
        raise Refused(
            GroupError.FENCED_INSTANCE_ID,
            f"instance id {instance_id!r} belongs to member {known.member_id!r} now",
        )
    return known


def _check_epoch(member: ConsumerMember, request: ConsumerGroupHeartbeat) -> None:
    member.current.check_epoch(request.member_epoch, request.owned, of="partitions")
