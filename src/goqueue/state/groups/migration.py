"""Moving a group with members from one protocol to the other while it runs (KIP-848).

A classic group becomes a consumer group when its first consumer-protocol member joins; its other
members go on with the classic protocol inside it. It becomes a classic group again when the last
consumer-protocol member has gone. Empty groups change kind without any of this.
"""

from collections.abc import Collection, Mapping

from goqueue.model.groups.assignment import Assignment, assignment, union, without
from goqueue.model.groups.consumer_protocol import (
    PROTOCOL_TYPE,
    MalformedProtocol,
    Subscription,
    read_assignment,
    read_subscription,
    write_assignment,
)
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import Client, MemberProtocol
from goqueue.state.groups.classic_group import ClassicGroup, ClassicMember
from goqueue.state.groups.consumer_group import ConsumerGroup, ConsumerMember
from goqueue.state.groups.current_assignment import CurrentAssignment
from goqueue.state.groups.records import ClassicProtocols, ConsumerMemberValue
from goqueue.state.groups.refused import Refused
from goqueue.state.groups.registry import Registry
from goqueue.state.groups.settings import GroupSettings
from goqueue.state.groups.states import ClassicState
from goqueue.state.groups.topics import Topics
from goqueue.state.machine import StateRecord


def upgraded(classic: ClassicGroup, registry: Registry) -> ConsumerGroup:
    """The consumer group that takes the place of `classic`, with the assignments it had."""
    _check_upgrade(classic, registry.settings)
    group = ConsumerGroup(
        classic.group_id,
        registry.regexes,
        epoch=classic.generation,
        assignment_epoch=classic.generation,
    )
    said: dict[str, Subscription] = {}
    held: dict[str, Assignment] = {}
    # No partition may be held twice, whatever members' own assignor and claims say.
    taken: Assignment = {}
    for member in classic.members.values():
        try:
            said[member.member_id] = read_subscription(member.protocols[0].metadata)
            embedded = read_assignment(member.assignment)
        except MalformedProtocol as error:
            raise _not_convertible(classic, f"cannot read its members' protocol: {error}") from None
        if embedded.user_data:
            raise _not_convertible(classic, "it uses an assignor that keeps data of its own")
        assigned = topic_ids(embedded.partitions, registry.topics)
        held[member.member_id] = without(assigned, taken)
        taken = union(taken, assigned)
    for member_id, subscription in said.items():
        # A cooperative member may hold on to more than it was last assigned.
        owned = topic_ids(subscription.owned, registry.topics)
        held[member_id] = union(held[member_id], without(owned, taken))
        taken = union(taken, owned)
    for member in classic.members.values():
        member_id, generation = member.member_id, classic.generation
        assigned = held[member_id]
        group.set_said(member_id, _said(member, said[member_id]))
        group.targets[member_id] = assigned
        group.set_current(member_id, CurrentAssignment(generation, generation, assigned=assigned))
    return group


def _said(member: ClassicMember, subscription: Subscription) -> ConsumerMemberValue:
    return ConsumerMemberValue(
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client.client_id,
        client_host=member.client.host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topics=tuple(sorted(set(subscription.topics))),
        classic=ClassicProtocols(
            member.session_timeout_ms, tuple((p.name, p.metadata) for p in member.protocols)
        ),
    )


def _check_upgrade(classic: ClassicGroup, settings: GroupSettings) -> None:
    if not settings.migration_policy.allows_upgrade:
        raise _not_convertible(classic, "the migration policy does not allow upgrades")
    if not classic.uses_consumer_protocol:
        raise _not_convertible(classic, f"its protocol type is {classic.protocol_type!r}")
    if len(classic.members) > settings.consumer_max_size:
        raise _not_convertible(classic, f"it has more than {settings.consumer_max_size} members")


def _not_convertible(classic: ClassicGroup, reason: str) -> Refused:
    return Refused(
        GroupError.GROUP_ID_NOT_FOUND,
        f"classic group {classic.group_id!r} cannot become a consumer group: {reason}",
    )


def may_downgrade(staying: Collection[ConsumerMember], settings: GroupSettings) -> bool:
    return (
        bool(staying)
        and all(m.uses_classic_protocol for m in staying)
        and settings.migration_policy.allows_downgrade
        and len(staying) <= settings.classic_max_size
    )


def downgrade(
    group: ConsumerGroup, staying: Collection[ConsumerMember], registry: Registry, now_ms: int
) -> list[StateRecord]:
    """Records that replace `group` by a classic group of the members that stay. Their sessions
    are started here; that they rebalance is for the caller to see to."""
    classic = ClassicGroup(
        group.group_id,
        state=ClassicState.COMPLETING_REBALANCE,
        state_since_ms=now_ms,
        generation=group.epoch,
        protocol_type=PROTOCOL_TYPE,
    )
    for member in staying:
        said = member.said
        assert said.classic is not None
        classic.add(
            ClassicMember(
                member_id=member.member_id,
                instance_id=said.instance_id,
                client=Client(client_id=said.client_id, host=said.client_host),
                rebalance_timeout_ms=said.rebalance_timeout_ms,
                session_timeout_ms=said.classic.session_timeout_ms,
                protocol_type=PROTOCOL_TYPE,
                protocols=tuple(
                    MemberProtocol(name=name, metadata=metadata)
                    for name, metadata in said.classic.protocols
                ),
                # What it has, not what it should have: that may still be with somebody else.
                assignment=embedded_assignment(
                    said.classic, member.current.assigned, registry.topics
                ),
            )
        )
        registry.cancel_member_timers(group.group_id, member.member_id)
        registry.start_session(
            group.group_id, member.member_id, said.classic.session_timeout_ms, now_ms
        )
    classic.protocol_name = classic.select_protocol()
    return [*group.tombstones(), classic.as_record()]


def embedded_assignment(classic: ClassicProtocols, assigned: Assignment, topics: Topics) -> bytes:
    """An assignment as a member of the classic protocol reads it, in the version it speaks."""
    version = read_subscription(classic.protocols[0][1]).version
    return write_assignment(
        version,
        {
            topics.by_id[topic_id].name: sorted(numbers)
            for topic_id, numbers in assigned.items()
            if topic_id in topics.by_id
        },
    )


def topic_ids(partitions: Mapping[str, tuple[int, ...]], topics: Topics) -> Assignment:
    """Partitions by topic id; what names a topic that is not there is left out."""
    return assignment(
        (topics.by_name[name].id, numbers)
        for name, numbers in partitions.items()
        if name in topics.by_name
    )
