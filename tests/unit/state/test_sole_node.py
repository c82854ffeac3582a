"""Metadata of one node that has everything, and how replicas are spread over those that join it."""

from uuid import UUID

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.companions import QUEUE_STATE, companion_of
from goqueue.model.membership import NodeRecord
from goqueue.model.names import NodeId
from goqueue.model.replication import Member, Move, PartitionState
from goqueue.state import metadata_keys as keys
from goqueue.state.sole_node import entries_of_sole_node, spread_over

ME = NodeId(4)


def topic(name: str, topic_id: UUID, partitions: int) -> list[keys.Entry]:
    state = PartitionState(
        leader=NodeId(1),
        leader_epoch=5,
        replicas=(NodeId(1), NodeId(2)),
        in_sync=(Member(NodeId(1), 8),),
        doubtful=(NodeId(2),),
        min_in_sync=2,
    )
    made = keys.topic_entry(name, keys.TopicValue(id=topic_id, partitions=partitions))
    return [made, *keys.new_partition_entries(name, 0, [state] * partitions)]


def states(entries: list[keys.Entry], name: str) -> list[PartitionState]:
    return [
        keys.decode_partition(*entry)
        for entry in entries
        if entry.key.startswith(keys.partitions_prefix(name))
    ]


def test_one_node_leads_all_that_others_led() -> None:
    stored = [*topic("orders", UUID(int=3), 2), keys.controller_entry(NodeId(1))]
    entries = list(entries_of_sole_node(stored, ME, epochs_later=1))
    assert [entry.key for entry in entries] == [entry.key for entry in stored[:-1]]
    assert states(entries, "orders") == 2 * [
        PartitionState(
            leader=ME,
            leader_epoch=6,
            replicas=(ME,),
            in_sync=(Member(ME, keys.NO_BROKER_EPOCH),),
            min_in_sync=2,
        )
    ]


def test_a_move_ends_where_there_is_nobody_to_move_to() -> None:
    """With its quorum: else the partition would wait for brokers that are not there."""
    made, stored = topic("orders", UUID(int=3), 1)
    move = Move(before=(NodeId(1), NodeId(2)), target=(NodeId(3), NodeId(2)))
    moving = msgspec.structs.replace(keys.decode_partition(*stored), move=move)
    entries = [made, keys.partition_entry("orders", 0, moving)]
    [state] = states(list(entries_of_sole_node(entries, ME)), "orders")
    assert (state.move, state.wanted, state.quorum) == (None, (ME,), 1)


def test_what_holds_for_all_goes_along() -> None:
    stored = [
        keys.broker_config_entry(None, {"max.connections": "5"}),
        keys.group_config_entry("billing", {"consumer.session.timeout.ms": "9000"}),
        keys.client_metrics_entry("producers", {"metrics": "*"}),
    ]
    assert list(entries_of_sole_node(stored, ME)) == stored


def test_settings_of_a_broker_go_along_where_it_was_the_only_one() -> None:
    cordoned = {"cordoned.log.dirs": "*"}
    alone = [keys.broker_config_entry(NodeId(0), cordoned)]
    assert list(entries_of_sole_node(alone, ME)) == [keys.broker_config_entry(ME, cordoned)]
    record = NodeRecord(directory=UUID(int=1), incarnation=UUID(int=2), broker_epoch=3)
    of_several = [
        *(keys.node_entry(NodeId(node), record) for node in (1, 2)),
        keys.broker_config_entry(NodeId(2), cordoned),
    ]
    assert list(entries_of_sole_node(of_several, ME)) == []


@given(
    topic_id=st.uuids(),
    others=st.sets(st.integers(0, 9).map(NodeId), max_size=6),
    factor=st.integers(1, 4),
)
def test_replicas_are_spread_and_the_one_with_the_data_is_always_there(
    topic_id: UUID, others: set[NodeId], factor: int
) -> None:
    brokers = sorted({ME, *others})
    partitions = 2 * len(brokers)
    companion = companion_of(QUEUE_STATE, topic_id)
    stored = [
        *topic("orders", topic_id, partitions),
        *topic(companion, UUID(int=1), partitions),
    ]
    entries = spread_over(entries_of_sole_node(stored, ME), ME, brokers, factor)
    found = states(entries, "orders")
    for state in found:
        assert state.leader == ME
        assert state.in_sync == (Member(ME, keys.NO_BROKER_EPOCH),)
        assert ME in state.replicas
        assert len(set(state.replicas)) == min(factor, len(brokers))
        assert set(state.replicas) <= set(brokers)
    # What belongs to a partition is where that is.
    assert [each.replicas for each in states(entries, companion)] == [
        each.replicas for each in found
    ]
    if factor > 1:
        assert {state.replicas[0] for state in found} == set(brokers)


def test_users_rules_and_all_else_of_security_goes_along() -> None:
    stored = [keys.Entry(keys.security_key(kind, "a/b"), b"{}") for kind in keys.SecurityKind]
    assert list(entries_of_sole_node(stored, ME)) == stored
