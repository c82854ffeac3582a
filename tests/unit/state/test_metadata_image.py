"""The image of the metadata, and what it says has changed."""

from uuid import UUID

import pytest

from goqueue.model.errors import MetadataCorrupt
from goqueue.model.names import NodeId, TopicName, topic_partition
from goqueue.model.topics import BrokerView, PartitionView, TopicView
from goqueue.state.metadata_image import ImageChanges, MetadataImage
from goqueue.state.metadata_keys import (
    BrokerValue,
    DoorKey,
    Entry,
    PartitionValue,
    TopicValue,
    broker_config_entry,
    broker_config_key,
    broker_entry,
    broker_key,
    cluster_id_entry,
    controller_entry,
    door_key,
    new_partition_entries,
    new_topic_entries,
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


def with_topic() -> MetadataImage:
    entries = new_topic_entries("t", FIRST_ID, [[ONE, TWO], [TWO, ONE]], {"a": "1"})
    return MetadataImage.load([*entries, broker(ONE), broker(TWO)], revision=10)


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
    image = MetadataImage.load([cluster_id_entry("c-1"), controller_entry(TWO)], revision=3)
    assert (image.cluster_id, image.controller_id) == ("c-1", TWO)
    image, changes = image.apply(4, [("/controller", None), ("/cluster/id", None)])
    assert (image.cluster_id, image.controller_id) == ("", -1)
    assert changes == ImageChanges(controller_changed=True)


def test_created_topic() -> None:
    before = with_topic()
    image, changes = before.apply(11, new_topic_entries("u", SECOND_ID, [[ONE]]))
    assert changes == ImageChanges(topics_created=(image.topics["u"],))
    assert image.topics["t"] is before.topics["t"]
    assert "u" not in before.topics
    assert image.brokers is before.brokers


def test_deleted_topic() -> None:
    before = with_topic()
    keys = [topic_key("t"), partition_key("t", 0), partition_key("t", 1)]
    image, changes = before.apply(11, [(key, None) for key in keys])
    assert changes == ImageChanges(topics_deleted=(before.topics["t"],))
    assert (image.topics, image.topics_by_id) == ({}, {})
    assert image == MetadataImage.load([broker(ONE), broker(TWO)], revision=11)


def test_topic_made_anew_is_another_topic() -> None:
    before = with_topic()
    gone = [(partition_key("t", i), None) for i in range(2)]
    image, changes = before.apply(11, [*gone, *new_topic_entries("t", SECOND_ID, [[ONE]])])
    assert changes == ImageChanges(
        topics_created=(image.topics["t"],), topics_deleted=(before.topics["t"],)
    )
    assert image.topics_by_id == {SECOND_ID: image.topics["t"]}
    assert len(image.topics["t"].partitions) == 1


def test_grown_topic() -> None:
    image, changes = with_topic().apply(
        11,
        [
            topic_entry("t", TopicValue(id=FIRST_ID, partitions=4, config={"a": "1"})),
            *new_partition_entries("t", 2, [[ONE], [TWO]]),
        ],
    )
    assert changes == ImageChanges(
        partitions_added=(topic_partition("t", 2), topic_partition("t", 3))
    )
    assert [p.leader for p in image.topics["t"].partitions] == [1, 2, 1, 2]


def test_changed_partition() -> None:
    moved = PartitionValue(leader=TWO, leader_epoch=5, replicas=(ONE, TWO), isr=(TWO,))
    before = with_topic()
    image, changes = before.apply(11, [partition_entry("t", 0, moved)])
    assert changes == ImageChanges(partitions_changed=(topic_partition("t", 0),))
    partition, untouched = image.topics["t"].partitions
    assert (partition.leader, partition.leader_epoch, partition.isr) == (2, 5, (2,))
    assert untouched is before.topics["t"].partitions[1]
    assert image.topics_by_id[FIRST_ID] is image.topics["t"]


def test_changed_topic_config() -> None:
    value = TopicValue(id=FIRST_ID, partitions=2, config={"a": "2"})
    image, changes = with_topic().apply(11, [topic_entry("t", value)])
    assert changes == ImageChanges(topics_reconfigured=(image.topics["t"],))
    assert image.topics["t"].config == {"a": "2"}


def test_same_value_again_is_no_change() -> None:
    before = with_topic()
    entries = new_topic_entries("t", FIRST_ID, [[ONE, TWO], [TWO, ONE]], {"a": "1"})
    image, changes = before.apply(11, [*entries, broker(ONE)])
    assert changes == ImageChanges()
    assert image.topics == before.topics


def test_broker_configs() -> None:
    image, changes = MetadataImage.empty().apply(
        5, [broker_config_entry(ONE, {"x": "1"}), broker_config_entry(None, {"y": "2"})]
    )
    assert changes == ImageChanges(broker_configs_changed=(ONE, None))
    assert (image.broker_config(ONE), image.broker_config(None)) == ({"x": "1"}, {"y": "2"})
    assert image.broker_config(TWO) == {}
    image, changes = image.apply(6, [(broker_config_key(ONE), None)])
    assert (image.broker_config(ONE), image.broker_config(None)) == ({}, {"y": "2"})
    assert changes == ImageChanges(broker_configs_changed=(ONE,))


def test_brokers_come_and_go() -> None:
    image, changes = with_topic().apply(11, [(broker_key(TWO), None), broker(THREE)])
    assert set(changes.brokers_changed) == {TWO, THREE}
    assert changes.partitions_changed == ()
    assert image.brokers[THREE] == BrokerView(THREE, "host-3", 9092, 80, None)
    assert [p.offline for p in image.topics["t"].partitions] == [(TWO,), (TWO,)]
    assert image.topics_by_id[FIRST_ID] is image.topics["t"]
    image, _ = image.apply(12, [broker(TWO)])
    assert [p.offline for p in image.topics["t"].partitions] == [(), ()]


def test_partition_before_its_topic_waits_unseen() -> None:
    topic, first, second = new_topic_entries("t", FIRST_ID, [[ONE], [ONE]])
    image, changes = MetadataImage.empty().apply(2, [second])
    assert changes == ImageChanges()
    assert image.topics == {}
    image, _ = image.apply(3, [topic])
    assert [p.is_known for p in image.topics["t"].partitions] == [False, True]
    unknown = image.topics["t"].partitions[0]
    assert unknown == PartitionView(unknown.index, NodeId(-1), -1, (), ())
    image, changes = image.apply(4, [first])
    assert changes == ImageChanges(partitions_changed=(topic_partition("t", 0),))


def test_keys_of_others_are_left_alone() -> None:
    image, changes = with_topic().apply(11, [("/acls/x", b"not json"), ("/topicsx", b"")])
    assert changes == ImageChanges()
    assert image.topics == with_topic().topics


def test_entries_of_doors() -> None:
    key = door_key("sqs", "queues/orders")
    image, changes = with_topic().apply(11, [(key, b"\x00any bytes")])
    assert changes == ImageChanges()
    assert image.door_entries == {DoorKey("sqs", "queues/orders"): b"\x00any bytes"}
    assert key in image.known_keys()
    image, _ = image.apply(12, [(key, None)])
    assert image.door_entries == {}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("/topics/t", b"{}"),
        ("/topics/t", b"not json"),
        ("/partitions/t/0", b'{"leader": "x"}'),
        ("/brokers/1", b"[]"),
        ("/brokers/one", b"{}"),
        ("/partitions/t/x", b"{}"),
        ("/configs/brokers/x", b"{}"),
        ("/configs/brokers/1", b'{"a": 1}'),
        ("/producer-ids/next", b"null"),
    ],
)
def test_bad_entry_is_named(key: str, value: bytes) -> None:
    with pytest.raises(MetadataCorrupt, match=key):
        MetadataImage.empty().apply(2, [(key, value)])


def test_producer_id_blocks_follow_each_other() -> None:
    block, entry = take_producer_ids(None)
    assert (block.first, block.count) == (0, 1_000)
    block, entry = take_producer_ids(entry.value)
    assert (block.first, block.count) == (1_000, 1_000)
    assert MetadataImage.load([entry], revision=2).next_producer_id == 2_000


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
