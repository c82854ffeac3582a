"""What the leader of a classic group does: give every member its partitions.

Members that live in the broker (those of doors without a protocol of their own) can be elected
leader among Kafka clients; they then assign by the rules of the strategy that the group agreed on.
"""

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from goqueue.model.groups.assignment import Assignment, assignment
from goqueue.model.groups.consumer_protocol import (
    MalformedProtocol,
    Subscription,
    read_subscription,
    write_assignment,
)
from goqueue.model.groups.messages import JoinedMember
from goqueue.state.groups.assignors import Assignor, MemberSpec, Partitions, range_, uniform
from goqueue.state.groups.topics import Topics

COOPERATIVE_STICKY: Final = "cooperative-sticky"
STICKY: Final = "sticky"
# The newest version of the embedded assignment; all have the same fields.
ASSIGNMENT_VERSION_MAX: Final = 3

_NO_SUBSCRIPTION: Final = Subscription(0, (), {}, None)


def assign(strategy: str, members: Sequence[JoinedMember], topics: Topics) -> dict[str, bytes]:
    """The embedded assignment of every member, by member id."""
    subscriptions = {member.member_id: _subscription(member.metadata) for member in members}
    owned = _owned(subscriptions, topics)
    specs = {
        member.member_id: MemberSpec(
            instance_id=member.group_instance_id,
            subscribed=topics.ids_of(subscriptions[member.member_id].topics),
            target=owned[member.member_id],
        )
        for member in members
    }
    subscribed = frozenset[UUID]().union(*(spec.subscribed for spec in specs.values()))
    # What is withheld from the group is taken out when it comes to the coordinator.
    partitions = {each: range(topics.by_id[each].partition_count) for each in subscribed}
    assigned = STRATEGIES[strategy](specs, partitions)
    if strategy == COOPERATIVE_STICKY:
        assigned = _without_what_others_hold(assigned, owned)
    return {
        member_id: write_assignment(
            min(subscriptions[member_id].version, ASSIGNMENT_VERSION_MAX),
            {topics.by_id[topic_id].name: sorted(p) for topic_id, p in partitions.items()},
        )
        for member_id, partitions in assigned.items()
    }


def partition_counts(members: Sequence[JoinedMember], topics: Topics) -> dict[str, int]:
    """What an assignment rests on: every subscribed topic there is, and its partitions."""
    names = {name for m in members for name in _subscription(m.metadata).topics}
    return {n: topics.by_name[n].partition_count for n in names if n in topics.by_name}


def round_robin(members: Mapping[str, MemberSpec], partitions: Partitions) -> dict[str, Assignment]:
    """All partitions in order, dealt to the members in turn; who does not subscribe is passed."""
    order = sorted(members, key=lambda m: (members[m].instance_id or m, m))
    held: dict[str, list[tuple[UUID, Sequence[int]]]] = {member_id: [] for member_id in members}
    turn = 0
    for topic, numbers in sorted(partitions.items()):
        for number in numbers:
            while topic not in members[order[turn % len(order)]].subscribed:
                turn += 1
            held[order[turn % len(order)]].append((topic, (number,)))
            turn += 1
    return {member_id: assignment(parts) for member_id, parts in held.items()}


# By the names that Kafka's clients give them; a member offers them in this order.
STRATEGIES: Final[Mapping[str, Assignor]] = {
    STICKY: uniform,
    "range": range_,
    "roundrobin": round_robin,
    COOPERATIVE_STICKY: uniform,
}


def _subscription(metadata: bytes) -> Subscription:
    """A member whose bytes cannot be read gets nothing; the others must not suffer for it."""
    try:
        return read_subscription(metadata)
    except MalformedProtocol:
        return _NO_SUBSCRIPTION


def _owned(subscriptions: Mapping[str, Subscription], topics: Topics) -> dict[str, Assignment]:
    """What members hold. Of two who claim a partition the one of the later generation is right;
    in the same generation neither is believed."""
    claims: dict[tuple[UUID, int], tuple[int, str | None]] = {}
    for member_id, said in subscriptions.items():
        for name, numbers in said.owned.items():
            if name not in topics.by_name:
                continue
            for number in numbers:
                place = (topics.by_name[name].id, number)
                generation, _ = claims.get(place, (-2, None))
                if said.generation > generation:
                    claims[place] = (said.generation, member_id)
                elif said.generation == generation:
                    claims[place] = (generation, None)
    owned: dict[str, list[tuple[UUID, tuple[int, ...]]]] = {m: [] for m in subscriptions}
    for (topic_id, number), (_, owner) in claims.items():
        if owner is not None:
            owned[owner].append((topic_id, (number,)))
    return {member_id: assignment(parts) for member_id, parts in owned.items()}


def _without_what_others_hold(
    assigned: Mapping[str, Assignment], owned: Mapping[str, Assignment]
) -> dict[str, Assignment]:
    """A partition on its way is given to nobody until its holder has come back without it
    (KIP-429)."""
    holder = {
        (topic_id, number): member_id
        for member_id, partitions in owned.items()
        for topic_id, numbers in partitions.items()
        for number in numbers
    }

    return {
        member_id: assignment(
            (topic_id, [n for n in numbers if holder.get((topic_id, n), member_id) == member_id])
            for topic_id, numbers in partitions.items()
        )
        for member_id, partitions in assigned.items()
    }
