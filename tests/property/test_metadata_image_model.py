"""An image depends on the stored keys alone, however it came to know them."""

from collections.abc import Mapping
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.model.names import NodeId
from goqueue.state.metadata_image import ImageChanges, MetadataImage
from goqueue.state.metadata_keys import (
    BrokerValue,
    Entry,
    PartitionValue,
    TopicValue,
    broker_config_entry,
    broker_entry,
    cluster_id_entry,
    controller_entry,
    partition_entry,
    topic_entry,
)

Change = tuple[str, bytes | None]

TOPICS = ("a", "b", "ab")
node_ids = st.integers(0, 3).map(NodeId)
replicas = st.lists(node_ids, max_size=3, unique=True).map(tuple)
configs = st.dictionaries(st.sampled_from(("x", "y")), st.sampled_from(("1", "2")))


@st.composite
def topic_entries(draw: st.DrawFn) -> Entry:
    name = draw(st.sampled_from(TOPICS))
    # Ids are unique in a cluster: no two topics share one, though a name may have several.
    topic_id = UUID(int=TOPICS.index(name) * 10 + draw(st.integers(0, 1)))
    value = TopicValue(id=topic_id, partitions=draw(st.integers(0, 4)), config=draw(configs))
    return topic_entry(name, value)


partitions = st.builds(
    lambda leader, epoch, replicas, isr: PartitionValue(
        leader=leader, leader_epoch=epoch, replicas=replicas, isr=isr
    ),
    node_ids,
    st.integers(0, 2),
    replicas,
    replicas,
)
brokers = st.builds(
    lambda host: BrokerValue(host=host, kafka_port=1, http_port=2), st.sampled_from(("h", "i"))
)
entries = st.one_of(
    topic_entries(),
    st.builds(partition_entry, st.sampled_from(TOPICS), st.integers(0, 5), partitions),
    st.builds(broker_entry, node_ids, brokers),
    st.builds(broker_config_entry, st.none() | node_ids, configs),
    st.builds(controller_entry, node_ids),
    st.builds(cluster_id_entry, st.sampled_from(("one", "two"))),
    st.sampled_from(((Entry("/producer-ids/next", b"5")), Entry("/else", b"?"))),
)
changes = st.tuples(entries, st.booleans()).map(
    lambda drawn: (drawn[0].key, None if drawn[1] else drawn[0].value)
)


def stored_after(all_changes: list[Change]) -> Mapping[str, bytes]:
    last = dict(all_changes)
    return {key: value for key, value in last.items() if value is not None}


@settings(max_examples=200, deadline=None)
@given(batches=st.lists(st.lists(changes, max_size=8), max_size=8), data=st.data())
def test_every_way_leads_to_the_same_image(
    batches: list[list[Change]], data: st.DataObject
) -> None:
    every_change = [change for batch in batches for change in batch]
    in_batches = one_by_one = MetadataImage.load([], revision=9)
    for batch in batches:
        in_batches, _ = in_batches.apply(9, batch)
    for change in every_change:
        one_by_one, _ = one_by_one.apply(9, [change])
    at_once, _ = MetadataImage.empty().apply(9, every_change)
    stored = data.draw(st.permutations(sorted(stored_after(every_change).items())))
    read = MetadataImage.load(stored, revision=9)
    assert one_by_one == in_batches == at_once == read
    assert read.topics_by_id == {topic.id: topic for topic in read.topics.values()}


@settings(max_examples=200, deadline=None)
@given(first=st.lists(changes, max_size=15), second=st.lists(changes, max_size=10))
def test_changes_say_what_differs(first: list[Change], second: list[Change]) -> None:
    before, _ = MetadataImage.empty().apply(1, first)
    untouched, _ = MetadataImage.empty().apply(1, first)
    after, said = before.apply(2, second)
    assert before == untouched, "an image was changed in place"

    ids_before = {(topic.name, topic.id) for topic in before.topics.values()}
    ids_after = {(topic.name, topic.id) for topic in after.topics.values()}
    assert {(t.name, t.id) for t in said.topics_created} == ids_after - ids_before
    assert {(t.name, t.id) for t in said.topics_deleted} == ids_before - ids_after
    stayed = [(before.topics[name], after.topics[name]) for name, _ in ids_before & ids_after]
    assert {t.name for t in said.topics_reconfigured} == {
        new.name for old, new in stayed if old.config != new.config
    }
    assert set(said.partitions_added) == {
        (new.name, index)
        for old, new in stayed
        for index in range(len(old.partitions), len(new.partitions))
    }
    assert set(said.partitions_changed) == {
        (new.name, q.index)
        for old, new in stayed
        for p, q in zip(old.partitions, new.partitions, strict=False)
        if (p.leader, p.leader_epoch, p.replicas, p.isr)
        != (q.leader, q.leader_epoch, q.replicas, q.isr)
    }
    assert set(said.brokers_changed) == {
        node_id
        for node_id in before.brokers.keys() | after.brokers.keys()
        if before.brokers.get(node_id) != after.brokers.get(node_id)
    }
    assert set(said.broker_configs_changed) == {
        node_id
        for node_id in before.broker_configs.keys() | after.broker_configs.keys()
        if before.broker_config(node_id) != after.broker_config(node_id)
    }
    assert said.controller_changed is (before.controller_id != after.controller_id)


@given(all_changes=st.lists(changes, max_size=15))
def test_offline_replicas_are_those_without_a_broker(all_changes: list[Change]) -> None:
    image, _ = MetadataImage.empty().apply(1, all_changes)
    for topic in image.topics.values():
        for partition in topic.partitions:
            assert partition.offline == tuple(
                node_id for node_id in partition.replicas if node_id not in image.brokers
            )


def test_no_changes_are_said_for_nothing() -> None:
    assert MetadataImage.empty().apply(1, [])[1] == ImageChanges()
