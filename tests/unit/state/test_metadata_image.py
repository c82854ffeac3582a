"""The image of the metadata, and what it says has changed."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar
from uuid import UUID

import pytest

from goqueue.model.errors import MetadataCorrupt
from goqueue.model.membership import NodeRecord, Registration
from goqueue.model.names import NO_LEADER, NodeId, TopicName, topic_partition
from goqueue.model.replication import Member, PartitionState
from goqueue.model.topics import UNKNOWN_STATE, BrokerView, PartitionView, TopicView
from goqueue.state.metadata_image import Controller, ImageChanges, MetadataImage
from goqueue.state.metadata_keys import (
    BrokerValue,
    DoorKey,
    Entry,
    TopicValue,
    broker_config_entry,
    broker_config_key,
    broker_entry,
    broker_key,
    cluster_id_entry,
    controller_entry,
    door_key,
    feature_level_entry,
    new_partition_entries,
    node_entry,
    node_key,
    parse_key,
    partition_entry,
    partition_key,
    partitions_prefix,
    take_producer_ids,
    topic_entry,
    topic_key,
)

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
FIRST_ID, SECOND_ID = UUID(int=1), UUID(int=2)


def broker(node_id: NodeId) -> Entry:
    return broker_entry(node_id, BrokerValue(host=f"host-{node_id}", kafka_port=9092, http_port=80))


V = TypeVar("V", bytes, bytes | None)


def at(revision: int, entries: Iterable[tuple[str, V]]) -> list[tuple[str, V, int]]:
    return [(key, value, revision) for key, value in entries]


def loaded(entries: Iterable[Entry], *, revision: int) -> MetadataImage:
    return MetadataImage.load(at(revision, entries), revision=revision)


def new_partition(*replicas: NodeId) -> PartitionState:
    in_sync = tuple(Member(node, 0) for node in replicas)
    return PartitionState(leader=replicas[0], leader_epoch=0, replicas=replicas, in_sync=in_sync)


def new_topic_entries(
    name: str,
    topic_id: UUID,
    assignments: Sequence[Sequence[NodeId]],
    config: Mapping[str, str] | None = None,
) -> list[Entry]:
    value = TopicValue(id=topic_id, partitions=len(assignments), config=config or {})
    states = [new_partition(*replicas) for replicas in assignments]
    return [topic_entry(name, value), *new_partition_entries(name, 0, states)]


def with_topic() -> MetadataImage:
    entries = new_topic_entries("t", FIRST_ID, [[ONE, TWO], [TWO, ONE]], {"a": "1"})
    return loaded([*entries, broker(ONE), broker(TWO)], revision=10)


def test_empty_image() -> None:
    image = MetadataImage.empty()
    assert image == MetadataImage.load([], revision=0)
    assert (image.revision, image.cluster_id, image.controller_id) == (0, "", -1)
    assert (image.topics, image.brokers, image.broker_config(ONE)) == ({}, {}, {})


def test_topic_with_its_partitions() -> None:
    image = with_topic()
    topic = image.topics["t"]
    assert topic is image.topics_by_id[FIRST_ID]
    assert (topic.name, topic.id, topic.config) == ("t", FIRST_ID, {"a": "1"})
    assert [(p.index, p.leader, p.leader_epoch, p.replicas, p.isr) for p in topic.partitions] == [
        (0, 1, 0, (1, 2), (1, 2)),
        (1, 2, 0, (2, 1), (2, 1)),
    ]
    assert image.revision == 10


def test_cluster_facts() -> None:
    entries = [cluster_id_entry("c-1"), controller_entry(TWO), feature_level_entry(2)]
    image = loaded(entries, revision=3)
    assert (image.cluster_id, image.controller_id, image.feature_level) == ("c-1", TWO, 2)
    assert image.controller == Controller(TWO, 3)
    image, changes = image.apply(4, at(4, [("/controller", None), ("/cluster/id", None)]))
    assert (image.cluster_id, image.controller_id) == ("", -1)
    assert changes == ImageChanges(controller_changed=True)


def test_created_topic() -> None:
    before = with_topic()
    image, changes = before.apply(11, at(11, new_topic_entries("u", SECOND_ID, [[ONE]])))
    assert changes == ImageChanges(topics_created=(image.topics["u"],))
    assert image.topics["t"] is before.topics["t"]
    assert "u" not in before.topics
    assert image.brokers is before.brokers


def test_deleted_topic() -> None:
    before = with_topic()
    keys = [topic_key("t"), partition_key("t", 0), partition_key("t", 1)]
    image, changes = before.apply(11, at(11, [(key, None) for key in keys]))
    assert changes == ImageChanges(topics_deleted=(before.topics["t"],))
    assert (image.topics, image.topics_by_id) == ({}, {})
    assert image == MetadataImage.load(at(10, [broker(ONE), broker(TWO)]), revision=11)


def test_topic_made_anew_is_another_topic() -> None:
    before = with_topic()
    gone = [(partition_key("t", i), None) for i in range(2)]
    image, changes = before.apply(11, at(11, [*gone, *new_topic_entries("t", SECOND_ID, [[ONE]])]))
    assert changes == ImageChanges(
        topics_created=(image.topics["t"],), topics_deleted=(before.topics["t"],)
    )
    assert image.topics_by_id == {SECOND_ID: image.topics["t"]}
    assert len(image.topics["t"].partitions) == 1


def test_grown_topic() -> None:
    image, changes = with_topic().apply(
        11,
        at(
            11,
            [
                topic_entry("t", TopicValue(id=FIRST_ID, partitions=4, config={"a": "1"})),
                *new_partition_entries("t", 2, [new_partition(ONE), new_partition(TWO)]),
            ],
        ),
    )
    assert changes == ImageChanges(
        partitions_added=(topic_partition("t", 2), topic_partition("t", 3))
    )
    assert [p.leader for p in image.topics["t"].partitions] == [1, 2, 1, 2]


def test_changed_partition() -> None:
    moved = PartitionState(
        leader=TWO,
        leader_epoch=5,
        replicas=(ONE, TWO),
        in_sync=(Member(TWO, 7),),
        eligible=(Member(ONE, 6),),
        min_in_sync=2,
    )
    before = with_topic()
    image, changes = before.apply(11, at(11, [partition_entry("t", 0, moved)]))
    assert changes == ImageChanges(partitions_changed=(topic_partition("t", 0),))
    partition, untouched = image.topics["t"].partitions
    assert (partition.leader, partition.leader_epoch, partition.isr) == (2, 5, (2,))
    assert (partition.eligible, partition.state, partition.revision) == ((ONE,), moved, 11)
    assert untouched is before.topics["t"].partitions[1]
    assert image.topics_by_id[FIRST_ID] is image.topics["t"]


def test_changed_topic_config() -> None:
    value = TopicValue(id=FIRST_ID, partitions=2, config={"a": "2"})
    image, changes = with_topic().apply(11, at(11, [topic_entry("t", value)]))
    assert changes == ImageChanges(topics_reconfigured=(image.topics["t"],))
    assert image.topics["t"].config == {"a": "2"}


def test_the_same_key_read_again_is_no_change() -> None:
    before = with_topic()
    entries = new_topic_entries("t", FIRST_ID, [[ONE, TWO], [TWO, ONE]], {"a": "1"})
    image, changes = before.apply(11, at(10, [*entries, broker(ONE)]))
    assert changes == ImageChanges()
    assert image.topics == before.topics


def test_the_same_value_written_again_changes_what_is_compared() -> None:
    image, changes = with_topic().apply(
        11, at(11, [*new_partition_entries("t", 1, [new_partition(TWO, ONE)]), broker(ONE)])
    )
    assert changes == ImageChanges(
        partitions_changed=(topic_partition("t", 1),), brokers_changed=(ONE,)
    )
    assert [p.revision for p in image.topics["t"].partitions] == [10, 11]
    assert (image.brokers[ONE].epoch, image.brokers[TWO].epoch) == (11, 10)


def test_a_partition_that_a_node_of_one_stored_earlier() -> None:
    earlier = b'{"leader":1,"leader_epoch":4,"replicas":[1],"isr":[1]}'
    image, _ = with_topic().apply(11, at(11, [(partition_key("t", 0), earlier)]))
    assert image.topics["t"].partitions[0].state == PartitionState(
        leader=ONE, leader_epoch=4, replicas=(ONE,), in_sync=(Member(ONE, 0),)
    )


def test_nodes_stay_while_they_are_down_and_are_admitted_by_their_epoch() -> None:
    said = Registration(directory=FIRST_ID, trail=(SECOND_ID,), is_kept=True)
    value = BrokerValue(host="h", kafka_port=1, http_port=2, rack="r", registration=said)
    record = NodeRecord(directory=FIRST_ID, incarnation=SECOND_ID, broker_epoch=11)
    image, changes = MetadataImage.empty().apply(11, at(11, [broker_entry(ONE, value)]))
    assert image.brokers[ONE] == BrokerView(ONE, "h", 1, 2, "r", 11, said)
    assert image.admitted() == {}
    image, changes = image.apply(12, at(12, [node_entry(ONE, record)]))
    assert changes == ImageChanges(nodes_changed=(ONE,))
    assert image.nodes[ONE] == (record, 12)
    assert image.admitted() == {ONE: 11}
    image, changes = image.apply(13, at(13, [broker_entry(ONE, value)]))
    assert image.admitted() == {}, "registered anew, under another epoch"
    image, _ = image.apply(14, at(14, [(broker_key(ONE), None)]))
    assert image.nodes[ONE].record == record
    image, changes = image.apply(15, at(15, [(node_key(ONE), None)]))
    assert (image.nodes, changes) == ({}, ImageChanges(nodes_changed=(ONE,)))


def test_broker_configs() -> None:
    image, changes = MetadataImage.empty().apply(
        5, at(5, [broker_config_entry(ONE, {"x": "1"}), broker_config_entry(None, {"y": "2"})])
    )
    assert changes == ImageChanges(broker_configs_changed=(ONE, None))
    assert (image.broker_config(ONE), image.broker_config(None)) == ({"x": "1"}, {"y": "2"})
    assert image.broker_config(TWO) == {}
    image, changes = image.apply(6, at(6, [(broker_config_key(ONE), None)]))
    assert (image.broker_config(ONE), image.broker_config(None)) == ({}, {"y": "2"})
    assert changes == ImageChanges(broker_configs_changed=(ONE,))


def test_brokers_come_and_go() -> None:
    image, changes = with_topic().apply(11, at(11, [(broker_key(TWO), None), broker(THREE)]))
    assert set(changes.brokers_changed) == {TWO, THREE}
    assert changes.partitions_changed == ()
    assert image.brokers[THREE] == BrokerView(THREE, "host-3", 9092, 80, None, 11)
    assert [p.offline for p in image.topics["t"].partitions] == [(TWO,), (TWO,)]
    assert image.topics_by_id[FIRST_ID] is image.topics["t"]
    image, _ = image.apply(12, at(12, [broker(TWO)]))
    assert [p.offline for p in image.topics["t"].partitions] == [(), ()]


def test_partition_before_its_topic_waits_unseen() -> None:
    topic, first, second = new_topic_entries("t", FIRST_ID, [[ONE], [ONE]])
    image, changes = MetadataImage.empty().apply(2, at(2, [second]))
    assert changes == ImageChanges()
    assert image.topics == {}
    image, _ = image.apply(3, at(3, [topic]))
    assert [p.is_known for p in image.topics["t"].partitions] == [False, True]
    unknown = image.topics["t"].partitions[0]
    assert unknown == PartitionView(unknown.index, UNKNOWN_STATE, 0)
    assert (unknown.leader, unknown.leader_epoch, unknown.isr) == (NO_LEADER, -1, ())
    image, changes = image.apply(4, at(4, [first]))
    assert changes == ImageChanges(partitions_changed=(topic_partition("t", 0),))


def test_keys_of_others_are_left_alone() -> None:
    image, changes = with_topic().apply(11, at(11, [("/acls/x", b"not json"), ("/topicsx", b"")]))
    assert changes == ImageChanges()
    assert image.topics == with_topic().topics


def test_entries_of_doors() -> None:
    key = door_key("sqs", "queues/orders")
    image, changes = with_topic().apply(11, at(11, [(key, b"\x00any bytes")]))
    assert changes == ImageChanges()
    assert image.door_entries == {DoorKey("sqs", "queues/orders"): b"\x00any bytes"}
    image, _ = image.apply(12, at(12, [(key, None)]))
    assert image.door_entries == {}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("/topics/t", b"{}"),
        ("/topics/t", b"not json"),
        ("/topics/t", b'{"id": "\xff\xfe"}'),
        ("/partitions/t/0", b'{"\xff": 1}'),
        ("/partitions/t/0", b'{"leader": "x"}'),
        ("/brokers/1", b"[]"),
        ("/brokers/one", b"{}"),
        ("/nodes/1", b"{}"),
        ("/cluster/feature-level", b'"1"'),
        ("/partitions/t/x", b"{}"),
        ("/configs/brokers/x", b"{}"),
        ("/configs/brokers/1", b'{"a": 1}'),
        ("/producer-ids/next", b"null"),
    ],
)
def test_bad_entry_is_named(key: str, value: bytes) -> None:
    with pytest.raises(MetadataCorrupt, match=key):
        MetadataImage.empty().apply(2, at(2, [(key, value)]))


def test_producer_id_blocks_follow_each_other() -> None:
    block, entry = take_producer_ids(None)
    assert (block.first, block.count) == (0, 1_000)
    block, entry = take_producer_ids(entry.value)
    assert (block.first, block.count) == (1_000, 1_000)
    assert loaded([entry], revision=2).next_producer_id == 2_000


def test_internal_topics() -> None:
    def topic(name: str) -> TopicView:
        return TopicView(TopicName(name), FIRST_ID, (), {})

    assert topic("__consumer_offsets").is_internal
    assert not topic("__mine").is_internal


def test_keys_can_be_told_apart() -> None:
    """A topic's partitions never lie under those of a topic whose name begins like it."""
    assert partition_key("a", 1).startswith(partitions_prefix("a"))
    assert not partition_key("ab", 1).startswith(partitions_prefix("a"))
    assert parse_key(partition_key("a.b-c_1", 12)) == ("a.b-c_1", 12)
    assert parse_key("/controllers") is None
