"""The metadata of a cluster that does not exist, as its brokers would have stored it in etcd."""

from collections.abc import Iterator
from typing import Final, NamedTuple
from uuid import UUID

from goqueue.model.membership import NodeRecord, Registration
from goqueue.model.names import NodeId
from goqueue.model.replication import Member, PartitionState
from goqueue.state import metadata_keys as keys

CLUSTER_ID: Final = "imagined-cluster-of-size"
MIN_IN_SYNC: Final = 2
# A cluster that has been at work for a while: its revisions have seven digits.
_FIRST_EPOCH: Final = 2_000_000
_FIRST_REVISION: Final = 3_000_000
_FEATURE_LEVEL: Final = 1


class Size(NamedTuple):
    brokers: int
    partitions: int
    per_topic: int = 100
    replicas: int = 3

    @property
    def nodes(self) -> range:
        return range(1, self.brokers + 1)

    @property
    def topics(self) -> int:
        return -(-self.partitions // self.per_topic)

    @property
    def replicas_per_broker(self) -> int:
        return -(-self.partitions * self.replicas // self.brokers)

    def __str__(self) -> str:
        return f"{self.brokers:,} / {self.partitions:,}"


class StoredEntry(NamedTuple):
    """A key with its value, and the revision at which it was written last."""

    key: str
    value: bytes
    revision: int


def broker_epoch(node: int) -> int:
    return _FIRST_EPOCH + node


def topic_name(number: int) -> str:
    return f"topic-{number:06d}"


def broker_entry(node: int, epoch: int) -> StoredEntry:
    """A broker that says that its folder is as it was: nothing needs to be copied again."""
    registration = Registration(directory=UUID(int=node), trail=(_incarnation(node),), is_kept=True)
    value = keys.BrokerValue(
        host=f"10.0.{node // 250}.{node % 250}",
        kafka_port=9092,
        http_port=8080,
        registration=registration,
    )
    return StoredEntry(*keys.broker_entry(NodeId(node), value), epoch)


def entries(size: Size) -> Iterator[StoredEntry]:
    yield StoredEntry(*keys.cluster_id_entry(CLUSTER_ID), 1)
    yield StoredEntry(*keys.feature_level_entry(_FEATURE_LEVEL), 2)
    yield StoredEntry(*keys.controller_entry(NodeId(1)), _FIRST_REVISION)
    for node in size.nodes:
        yield broker_entry(node, broker_epoch(node))
        yield _node_entry(node)
    for number in range(size.topics):
        name, first = topic_name(number), number * size.per_topic
        count = min(size.per_topic, size.partitions - first)
        value = keys.TopicValue(id=UUID(int=number + 1), partitions=count)
        yield StoredEntry(*keys.topic_entry(name, value), _FIRST_REVISION + first)
        for index in range(count):
            state = _state(size, first + index)
            entry = keys.partition_entry(name, index, state)
            yield StoredEntry(*entry, _FIRST_REVISION + first + index)


def _node_entry(node: int) -> StoredEntry:
    record = NodeRecord(
        directory=UUID(int=node), incarnation=_incarnation(node), broker_epoch=broker_epoch(node)
    )
    return StoredEntry(*keys.node_entry(NodeId(node), record), _FIRST_REVISION + node)


def _incarnation(node: int) -> UUID:
    return UUID(int=(1 << 64) + node)


def _state(size: Size, number: int) -> PartitionState:
    """Led by its first replica, all in sync."""
    replicas = tuple(NodeId(node) for node in _replicas(size, number))
    return PartitionState(
        leader=replicas[0],
        leader_epoch=number % 7,
        replicas=replicas,
        in_sync=tuple(Member(node, broker_epoch(node)) for node in replicas),
        min_in_sync=min(MIN_IN_SYNC, size.replicas),
    )


def _replicas(size: Size, number: int) -> Iterator[int]:
    """As evenly spread as `place` would: it takes a fifth of a millisecond for each partition of a
    hundred brokers, and is measured by itself."""
    turn, first = divmod(number, size.brokers)
    yield size.nodes[first]
    for other in range(size.replicas - 1):
        step = 1 + (turn + other) % (size.brokers - 1)
        yield size.nodes[(first + step) % size.brokers]
