"""Commands and timers of share groups (KIP-932): the heartbeat joins, reports and leaves."""

from collections.abc import Callable, Collection, Mapping

import msgspec

from goqueue.model.groups.assignment import NOTHING, Assignment, stored
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    UNKNOWN_MEMBER_ID,
    Client,
    GroupKind,
)
from goqueue.model.groups.share_messages import (
    DescribedShareGroup,
    DescribedShareMember,
    OpenedShareGroup,
    ShareGroupHeartbeat,
    ShareGroupHeartbeatResult,
    ShareMemberLeft,
)
from goqueue.state.groups.consumer_group import digest_of
from goqueue.state.groups.group import Group
from goqueue.state.groups.records import ShareMemberValue
from goqueue.state.groups.refused import Refused
from goqueue.state.groups.registry import Registry
from goqueue.state.groups.room import names_bytes
from goqueue.state.groups.share_assignor import ShareMemberSpec, simple
from goqueue.state.groups.share_group import ShareGroup, ShareMember
from goqueue.state.machine import Outcome, Ticket


class ShareProtocol:
    """`find` also knows groups that have offsets and no record of their own."""

    def __init__(self, registry: Registry, find: Callable[[str], Group | None]) -> None:
        self._registry = registry
        self._find = find

    # --- the heartbeat --------------------------------------------------------------------

    def heartbeat(
        self,
        request: ShareGroupHeartbeat,
        ticket: Ticket[ShareGroupHeartbeatResult],
        now_ms: int,
        out: Outcome,
    ) -> None:
        group = self._registry.groups.get(request.group_id)
        if isinstance(group, ShareGroup) and _says_nothing_new(group, request):
            self._touch(request.group_id, request.member_id, now_ms)
            out.reply(ticket, self._result(request, request.member_epoch, None))
            return
        _check_request(request)
        if request.member_epoch == LEAVE_EPOCH:
            self._leave(request, ticket, out)
        else:
            self._check_said(group, request)
            self._regular(request, ticket, now_ms, out)

    def _check_said(self, found: Group | None, request: ShareGroupHeartbeat) -> None:
        group = found if isinstance(found, ShareGroup) else ShareGroup(request.group_id)
        known = group.members.get(request.member_id)
        before = None if known is None else names_bytes(known.said.topics)
        topics = request.subscribed_topics
        self._registry.check_said(
            request.group_id,
            group.subscription_bytes,
            before,
            before or 0 if topics is None else names_bytes(set(topics)),
        )

    def _regular(
        self,
        request: ShareGroupHeartbeat,
        ticket: Ticket[ShareGroupHeartbeatResult],
        now_ms: int,
        out: Outcome,
    ) -> None:
        joins = request.member_epoch == JOIN_EPOCH
        member_id = request.member_id
        group = self._group(request.group_id, may_make=joins)
        self._check_room(group, member_id)
        if joins:
            member = group.members.get(member_id) or ShareMember(member_id)
        else:
            member = group.member(member_id)
            _check_epoch(member, request.member_epoch)
        said = _said_by(member.said, request)
        epoch, target = self._assigned(group, member, said, out)
        if said.epoch != epoch:
            said = msgspec.structs.replace(said, previous_epoch=said.epoch, epoch=epoch)
        said = msgspec.structs.replace(said, assigned=stored(target))
        if said != member.said or member_id not in group.members:
            out.records.append(group.member_record(member_id, said))
        self._touch(request.group_id, member_id, now_ms)
        # Also to a member of the epoch before: it missed the answer that said so.
        is_told = joins or target != member.assigned or request.member_epoch != member.epoch
        out.reply(ticket, self._result(request, epoch, target if is_told else None))

    def _group(self, group_id: str, *, may_make: bool) -> ShareGroup:
        """The group to work on; a new one is a draft until it is replayed."""
        group = self._find(group_id)
        if group is None and may_make:
            return ShareGroup(group_id)
        if isinstance(group, ShareGroup):
            return group
        raise not_found(group_id, group)

    def _check_room(self, group: ShareGroup, member_id: str) -> None:
        limit = self._registry.settings.share_max_size
        if len(group.members) >= limit and member_id not in group.members:
            raise Refused(
                GroupError.GROUP_MAX_SIZE_REACHED, f"the group has reached its limit of {limit}"
            )

    def _assigned(
        self, group: ShareGroup, member: ShareMember, said: ShareMemberValue, out: Outcome
    ) -> tuple[int, Assignment]:
        """The epoch and the assignment that the member has from now on."""
        is_changed = said.topics != member.said.topics or member.member_id not in group.members
        topics = {m: held.said.topics for m, held in group.members.items()}
        topics[member.member_id] = said.topics
        epoch, digest = group.epoch, group.topics_digest
        if epoch == 0 or is_changed or group.topics_changed:
            digest = digest_of(
                {name for names in topics.values() for name in names}, self._registry.topics
            )
            group.topics_changed = False
            if epoch == 0 or is_changed or digest != group.topics_digest:
                epoch += 1
        if epoch == group.assignment_epoch:
            return epoch, group.targets.get(member.member_id, NOTHING)
        targets = self._targets(group, topics)
        out.records += [
            group.target_record(name, target)
            for name, target in targets.items()
            if group.targets.get(name) != target
        ]
        out.records.append(group.group_record(epoch, digest, epoch))
        return epoch, targets[member.member_id]

    def _targets(
        self, group: ShareGroup, topics: Mapping[str, tuple[str, ...]]
    ) -> dict[str, Assignment]:
        known = self._registry.topics
        specs = {
            name: ShareMemberSpec(known.ids_of(names), group.targets.get(name, NOTHING))
            for name, names in topics.items()
        }
        wanted = frozenset().union(*(spec.subscribed for spec in specs.values()))
        counts = {topic_id: known.by_id[topic_id].partition_count for topic_id in wanted}
        return simple(specs, counts)

    def _touch(self, group_id: str, member_id: str, now_ms: int) -> None:
        times = self._registry.member_times(group_id, GroupKind.SHARE)
        self._registry.start_session(group_id, member_id, times.session_timeout_ms, now_ms)

    def _result(
        self, request: ShareGroupHeartbeat, epoch: int, assigned: Assignment | None
    ) -> ShareGroupHeartbeatResult:
        times = self._registry.member_times(request.group_id, GroupKind.SHARE)
        return ShareGroupHeartbeatResult(
            member_id=request.member_id,
            member_epoch=epoch,
            heartbeat_interval_ms=times.heartbeat_interval_ms,
            assignment=assigned,
        )

    # --- leaving --------------------------------------------------------------------------

    def _leave(
        self, request: ShareGroupHeartbeat, ticket: Ticket[ShareGroupHeartbeatResult], out: Outcome
    ) -> None:
        group = self._group(request.group_id, may_make=False)
        member = group.member(request.member_id)
        self.remove(group, [member.member_id], out)
        out.reply(
            ticket,
            ShareGroupHeartbeatResult(member_id=request.member_id, member_epoch=LEAVE_EPOCH),
        )

    def remove(self, group: ShareGroup, member_ids: Collection[str], out: Outcome) -> None:
        """Take members out; the others get their partitions with their next heartbeats."""
        leaving = [m for m in member_ids if m in group.members]
        if not leaving:
            return
        for member_id in leaving:
            self._registry.end_session(group.group_id, member_id)
            out.records += group.member_tombstones(member_id)
            out.effects.append(ShareMemberLeft(group.group_id, member_id))
        names = {
            name
            for member_id, member in group.members.items()
            if member_id not in leaving
            for name in member.said.topics
        }
        digest = digest_of(names, self._registry.topics)
        out.records.append(group.group_record(group.epoch + 1, digest, group.assignment_epoch))

    def loaded(self, group: ShareGroup, now_ms: int) -> None:
        for member_id in group.members:
            self._touch(group.group_id, member_id, now_ms)

    # --- administration -------------------------------------------------------------------

    def describe(self, group_id: str) -> DescribedShareGroup:
        group = self._find(group_id)
        if not isinstance(group, ShareGroup):
            refused = not_found(group_id, group)
            return DescribedShareGroup(
                group_id=group_id, error=refused.error, error_message=refused.message
            )
        return DescribedShareGroup(
            group_id=group_id,
            state=group.state_name,
            group_epoch=group.epoch,
            assignment_epoch=group.assignment_epoch,
            members=tuple(
                DescribedShareMember(
                    member_id=member.member_id,
                    rack_id=member.said.rack_id,
                    member_epoch=member.epoch,
                    client=Client(client_id=member.said.client_id, host=member.said.client_host),
                    subscribed_topics=member.said.topics,
                    assignment=member.assigned,
                )
                for member in group.members.values()
            ),
        )

    def open_empty(self, group_id: str, *, may_make: bool, out: Outcome) -> OpenedShareGroup:
        """Whether offsets of the group may be changed: it must have no members. Changing those of
        a group that is not there makes it, if that is asked for."""
        try:
            if not group_id:
                raise Refused(GroupError.INVALID_GROUP_ID, "group id must not be empty")
            group = self._group(group_id, may_make=may_make)
        except Refused as refused:
            return OpenedShareGroup(error=refused.error, error_message=refused.message)
        if not group.is_empty:
            return OpenedShareGroup(
                error=GroupError.NON_EMPTY_GROUP, error_message=f"group {group_id!r} has members"
            )
        if group_id not in self._registry.groups:
            out.records.append(group.group_record(0, 0, 0))
        return OpenedShareGroup()


def not_found(group_id: str, group: Group | None) -> Refused:
    message = (
        f"there is no share group {group_id!r}"
        if group is None
        else f"group {group_id!r} is not a share group but {group.kind.value.lower()}"
    )
    return Refused(GroupError.GROUP_ID_NOT_FOUND, message)


def _says_nothing_new(group: ShareGroup, request: ShareGroupHeartbeat) -> bool:
    """The heartbeat of a settled member in a settled group, which is nearly all of them."""
    member = group.members.get(request.member_id)
    return (
        member is not None
        and request.member_epoch == member.epoch == group.epoch == group.assignment_epoch
        and not group.topics_changed
        and request.subscribed_topics is None
        and request.rack_id is None
        and request.client.client_id == member.said.client_id
        and request.client.host == member.said.client_host
    )


def _check_request(request: ShareGroupHeartbeat) -> None:
    epoch = request.member_epoch
    _require(bool(request.group_id.strip()), "group id must not be empty")
    _require(request.member_id.strip() != UNKNOWN_MEMBER_ID, "member id must not be empty")
    _require(request.rack_id is None or bool(request.rack_id), "rack id must not be empty")
    _require(epoch >= LEAVE_EPOCH, f"member epoch {epoch} is below {LEAVE_EPOCH}")
    if epoch == JOIN_EPOCH:
        _require(bool(request.subscribed_topics), "subscribed topics must be set when joining")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise Refused(GroupError.INVALID_REQUEST, message)


def _check_epoch(member: ShareMember, received: int) -> None:
    """The epoch before is fine too: the answer that raised it may have been lost."""
    if received not in (member.epoch, member.said.previous_epoch):
        raise Refused(
            GroupError.FENCED_MEMBER_EPOCH,
            f"member epoch {received} is not the current one, {member.epoch}; join again",
        )


def _said_by(before: ShareMemberValue, request: ShareGroupHeartbeat) -> ShareMemberValue:
    changes: dict[str, object] = {
        "client_id": request.client.client_id,
        "client_host": request.client.host,
    }
    if request.rack_id is not None:
        changes["rack_id"] = request.rack_id
    if request.subscribed_topics is not None:
        changes["topics"] = tuple(sorted(set(request.subscribed_topics)))
    return msgspec.structs.replace(before, **changes)
