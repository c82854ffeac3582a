"""Metadata of one node that has everything, and how replicas are spread over those that join it."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.companions import QUEUE_STATE, companion_of
from goqueue.model.names import NodeId
from goqueue.model.replication import Member, PartitionState
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
