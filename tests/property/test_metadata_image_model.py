"""An image depends on the stored keys alone, however it came to know them."""

from collections.abc import Iterable
from itertools import islice
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.model.membership import NodeRecord
from goqueue.model.names import NodeId
from goqueue.model.replication import Member, PartitionState
from goqueue.state.metadata_image import ImageChanges, KeyChange, MetadataImage
from goqueue.state.metadata_keys import (
    BrokerValue,
    Entry,
    TopicValue,
    broker_config_entry,
    broker_entry,
    cluster_id_entry,
    controller_entry,
    feature_level_entry,
    node_entry,
    partition_entry,
    topic_entry,
)

Change = tuple[str, bytes | None]

TOPICS = ("a", "b", "ab")
node_ids = st.integers(0, 3).map(NodeId)
replicas = st.lists(node_ids, max_size=3, unique=True).map(tuple)
members = replicas.map(lambda nodes: tuple(Member(node, 5) for node in nodes))
configs = st.dictionaries(st.sampled_from(("x", "y")), st.sampled_from(("1", "2")))


@st.composite
def topic_entries(draw: st.DrawFn) -> Entry:
    name = draw(st.sampled_from(TOPICS))
    # Ids are unique in a cluster: no two topics share one, though a name may have several.
    topic_id = UUID(int=TOPICS.index(name) * 10 + draw(st.integers(0, 1)))
    value = TopicValue(id=topic_id, partitions=draw(st.integers(0, 4)), config=draw(configs))
    return topic_entry(name, value)


partitions = st.builds(
    lambda leader, epoch, replicas, isr, eligible: PartitionState(
        leader=leader, leader_epoch=epoch, replicas=replicas, in_sync=isr, eligible=eligible
    ),
    node_ids,
    st.integers(0, 2),
    replicas,
    members,
    members,
)
records = st.builds(
    lambda epoch: NodeRecord(directory=UUID(int=1), incarnation=UUID(int=2), broker_epoch=epoch),
    st.integers(0, 2),
)
brokers = st.builds(
    lambda host: BrokerValue(host=host, kafka_port=1, http_port=2), st.sampled_from(("h", "i"))
)
entries = st.one_of(
    topic_entries(),
    st.builds(partition_entry, st.sampled_from(TOPICS), st.integers(0, 5), partitions),
    st.builds(broker_entry, node_ids, brokers),
    st.builds(node_entry, node_ids, records),
    st.builds(feature_level_entry, st.integers(0, 2)),
    st.builds(broker_config_entry, st.none() | node_ids, configs),
    st.builds(controller_entry, node_ids),
    st.builds(cluster_id_entry, st.sampled_from(("one", "two"))),
    st.sampled_from(((Entry("/producer-ids/next", b"5")), Entry("/else", b"?"))),
)
changes = st.tuples(entries, st.booleans()).map(
    lambda drawn: (drawn[0].key, None if drawn[1] else drawn[0].value)
)


def numbered(all_changes: Iterable[Change], first: int = 1) -> list[KeyChange]:
    """Each change at a revision of its own."""
    return [(*change, revision) for revision, change in enumerate(all_changes, first)]


def stored_after(all_changes: list[KeyChange]) -> list[tuple[str, bytes, int]]:
    last = {key: (value, revision) for key, value, revision in all_changes}
    return [(key, value, at) for key, (value, at) in last.items() if value is not None]


@settings(max_examples=200, deadline=None)
@given(batches=st.lists(st.lists(changes, max_size=8), max_size=8), data=st.data())
def test_every_way_leads_to_the_same_image(
    batches: list[list[Change]], data: st.DataObject
) -> None:
    every_change = numbered(change for batch in batches for change in batch)
    left = iter(every_change)
    in_batches = one_by_one = MetadataImage.load([], revision=9)
    for batch in batches:
        in_batches, _ = in_batches.apply(9, list(islice(left, len(batch))))
    for change in every_change:
        one_by_one, _ = one_by_one.apply(9, [change])
    at_once, _ = MetadataImage.empty().apply(9, every_change)
    stored = data.draw(st.permutations(sorted(stored_after(every_change))))
    read = MetadataImage.load(stored, revision=9)
    assert one_by_one == in_batches == at_once == read
    assert read.topics_by_id == {topic.id: topic for topic in read.topics.values()}


@settings(max_examples=200, deadline=None)
@given(first=st.lists(changes, max_size=15), second=st.lists(changes, max_size=10))
def test_changes_say_what_differs(first: list[Change], second: list[Change]) -> None:
    before, _ = MetadataImage.empty().apply(1, numbered(first))
    untouched, _ = MetadataImage.empty().apply(1, numbered(first))
    after, said = before.apply(2, numbered(second, 100))
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
        if (p.state, p.revision) != (q.state, q.revision)
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
    assert set(said.nodes_changed) == {
        node_id
        for node_id in before.nodes.keys() | after.nodes.keys()
        if before.nodes.get(node_id) != after.nodes.get(node_id)
    }
    assert said.controller_changed is (before.controller != after.controller)


@given(all_changes=st.lists(changes, max_size=15))
def test_offline_replicas_are_those_without_a_broker(all_changes: list[Change]) -> None:
    image, _ = MetadataImage.empty().apply(1, numbered(all_changes))
    for topic in image.topics.values():
        for partition in topic.partitions:
            assert partition.offline == tuple(
                node_id for node_id in partition.replicas if node_id not in image.brokers
            )


def test_no_changes_are_said_for_nothing() -> None:
    assert MetadataImage.empty().apply(1, [])[1] == ImageChanges()
