"""What every broker, the controller and a client pay for the metadata of a cluster of some size.

All times are processor seconds of one process.
"""

import dataclasses
import gc
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Final, cast

import msgspec

from bench.cluster.scale.costs import full_collection_s, of_one, resident_bytes, watched
from bench.cluster.scale.imagined import (
    CLUSTER_ID,
    Size,
    broker_entry,
    broker_epoch,
    entries,
    topic_name,
)
from bench.cluster.scale.silent_etcd import SilentEtcd, watch_bytes
from goqueue.broker.controller.acting import Acting
from goqueue.broker.controller.viewing import cluster_view, companions
from goqueue.broker.topics.following import MetadataFollower
from goqueue.broker.topics.placing import Placing
from goqueue.doors.kafka.handlers.topics import metadata as metadata_door
from goqueue.doors.kafka.operation import RequestContext
from goqueue.doors.kafka.wire.schema import load_schema
from goqueue.doors.kafka.wire.writing import Chunks, join_small
from goqueue.model.broker_config import BrokerConfig
from goqueue.model.names import NodeId
from goqueue.model.topics import ClusterView as AnsweringCluster
from goqueue.model.topics import NewTopic
from goqueue.state import metadata_keys as keys
from goqueue.state.cluster_condition import cluster_state
from goqueue.state.controller.balancing import misplaced
from goqueue.state.controller.planning import Admit, ChangePartition, ClusterView, Stored, plan
from goqueue.state.metadata_image import ImageChanges, MetadataImage

# Who dies; the controller is node 1.
DEAD: Final = NodeId(2)
_REPETITIONS: Final = 20
# What librdkafka and the Java client ask for today.
_METADATA_VERSION: Final = 12


class MetadataFigures(msgspec.Struct):
    keys: int = 0
    key_bytes: int = 0
    value_bytes: int = 0
    # Read by each broker at its start, and again and again.
    read_bytes: int = 0
    load_s: float = 0.0
    load_most_bytes: int = 0
    image_bytes: int = 0
    reconcile_s: float = 0.0
    # Of it, what the event loop of the broker does in one go.
    reconcile_stall_s: float = 0.0
    collection_s: float = 0.0
    # Until a broker has applied …
    one_change_s: float = 0.0
    broker_gone_s: float = 0.0
    broker_back_s: float = 0.0
    # One broker dies: what its controller does …
    view_s: float = 0.0
    plan_s: float = 0.0
    act_s: float = 0.0
    changes: int = 0
    led: int = 0
    transactions: int = 0
    transaction_bytes: int = 0
    largest_transaction_bytes: int = 0
    # … and what every broker hears of it.
    watch_bytes: int = 0
    elections_applied_s: float = 0.0
    slowest_applied_s: float = 0.0
    # It is back: the controller admits it.
    admission_s: float = 0.0
    companions_s: float = 0.0
    misplaced: int = 0
    misplaced_s: float = 0.0
    answer_s: float = 0.0
    answer_bytes: int = 0
    topic_answer_s: float = 0.0
    topic_answer_bytes: int = 0
    # `goqueue cluster status`
    status_s: float = 0.0
    place_s: float = 0.0
    check_room_s: float = 0.0


async def measure(size: Size) -> MetadataFigures:
    # As brokers do while they start; afterwards what has stayed is set apart.
    gc.disable()
    figures = MetadataFigures()
    etcd = SilentEtcd(entries(size))
    gc.freeze()
    figures.keys, figures.read_bytes = etcd.keys, etcd.page_bytes
    figures.key_bytes, figures.value_bytes = etcd.key_bytes, etcd.value_bytes
    image = await _load(etcd, figures)
    after = await _one_dies(etcd, image, figures)
    _comes_back(etcd, after, figures)
    _balance(image, after, figures)
    await _answer(image, figures)
    _place(size, image, figures)
    with watched() as counting:
        cluster_state(image, cluster_id=CLUSTER_ID, store_failure=None)
    figures.status_s = counting.cpu_s
    gc.enable()
    return figures


async def _load(etcd: SilentEtcd, figures: MetadataFigures) -> MetadataImage:
    before = resident_bytes()
    store = etcd.store()
    follower = MetadataFollower(store, prepare=_nothing_first, react=_nothing)
    with watched() as loading:
        await follower.load()
    figures.load_s = loading.cpu_s
    figures.image_bytes = resident_bytes() - before
    gc.freeze()
    with watched() as reading:
        found = await store.get_prefix(keys.ROOT_PREFIX)
    figures.load_most_bytes = resident_bytes() - before
    del found
    with watched() as reconciling:
        # What a broker does now and then by itself, and nobody can ask for.
        await follower._reconcile()
    figures.reconcile_s = reconciling.cpu_s
    figures.reconcile_stall_s = max(0.0, reconciling.cpu_s - reading.cpu_s)
    figures.collection_s = full_collection_s()
    return follower.image


async def _nothing_first(_changes: ImageChanges, _image: MetadataImage) -> None:
    pass


def _nothing(_changes: ImageChanges, _image: MetadataImage) -> None:
    pass


async def _one_dies(
    etcd: SilentEtcd, image: MetadataImage, figures: MetadataFigures
) -> MetadataImage:
    """Returns the image after it."""
    revision = etcd.revision
    first = image.topics[topic_name(0)]
    changed = keys.partition_entry(first.name, 0, first.partitions[0].state)
    figures.one_change_s = of_one(
        _REPETITIONS, lambda: image.apply(revision + 1, [(*changed, revision + 1)])
    )
    with watched() as applying:
        without, _ = image.apply(revision + 1, [(keys.broker_key(DEAD), None, revision + 1)])
    figures.broker_gone_s = applying.cpu_s
    with watched() as viewing:
        view = cluster_view(without, log_ends={})
    figures.view_s = viewing.cpu_s
    with watched() as planning:
        actions = plan(view)
    figures.plan_s = planning.cpu_s
    changes = [action for action in actions if isinstance(action, ChangePartition)]
    del view
    acting = Acting(etcd.store(), image.controller.revision)
    with watched() as sending:
        await acting.change(changes)
    figures.act_s = sending.cpu_s
    figures.changes = len(changes)
    figures.led = sum(bool(change.relies_on) for change in changes)
    return _elections(etcd, without, figures)


def _elections(etcd: SilentEtcd, image: MetadataImage, figures: MetadataFigures) -> MetadataImage:
    sizes = [size for size, _ in etcd.transactions]
    figures.transactions, figures.transaction_bytes = len(sizes), sum(sizes)
    figures.largest_transaction_bytes = max(sizes, default=0)
    for number, (_, written) in enumerate(etcd.transactions):
        figures.watch_bytes += watch_bytes(written)
        with watched() as applying:
            image, _ = image.apply(etcd.revision + number, written)
        figures.elections_applied_s += applying.cpu_s
        figures.slowest_applied_s = max(figures.slowest_applied_s, applying.cpu_s)
    return image


def _comes_back(etcd: SilentEtcd, image: MetadataImage, figures: MetadataFigures) -> None:
    revision = etcd.revision + len(etcd.transactions) + 1
    with watched() as applying:
        image, _ = image.apply(revision, [broker_entry(DEAD, revision)])
    figures.broker_back_s = applying.cpu_s
    with watched() as admitting:
        actions = plan(cluster_view(image, log_ends={}))
    figures.admission_s = admitting.cpu_s
    assert [type(action) for action in actions] == [Admit]
    figures.companions_s = of_one(1, lambda: companions(image))


def _balance(image: MetadataImage, after: MetadataImage, figures: MetadataFigures) -> None:
    """All are in sync again, and what it had led is led elsewhere."""
    view = cluster_view(image, log_ends={})
    elsewhere: dict[Any, Stored] = {}
    for place, stored in view.partitions.items():
        if stored.state.leader == DEAD:
            led = after.topics[place.topic].partitions[place.partition].state
            state = msgspec.structs.replace(
                stored.state, leader=led.leader, leader_epoch=led.leader_epoch
            )
            elsewhere[place] = Stored(state, stored.revision)
    moved: ClusterView = dataclasses.replace(view, partitions={**view.partitions, **elsewhere})
    with watched() as balancing:
        found = misplaced(moved)
    figures.misplaced, figures.misplaced_s = len(found), balancing.cpu_s


async def _answer(image: MetadataImage, figures: MetadataFigures) -> None:
    context = _context(image)
    with watched() as answering:
        figures.answer_bytes = _written(await metadata_door.handle(context, _asks_for(None)))
    figures.answer_s = answering.cpu_s
    one = _asks_for([topic_name(0)])
    with watched() as answering:
        for _ in range(_REPETITIONS):
            figures.topic_answer_bytes = _written(await metadata_door.handle(context, one))
    figures.topic_answer_s = answering.cpu_s / _REPETITIONS


def _asks_for(names: Sequence[str] | None) -> Any:
    asked = None if names is None else tuple(_Asked(name) for name in names)
    return SimpleNamespace(
        topics=asked, include_topic_authorized_operations=False, allow_auto_topic_creation=False
    )


class _Asked(msgspec.Struct, frozen=True):
    name: str
    topic_id: None = None


def _context(image: MetadataImage) -> RequestContext:
    """The door with nothing behind it but the image."""
    brokers = tuple(image.brokers.values())
    cluster = AnsweringCluster(CLUSTER_ID, image.controller_id, brokers)

    async def cluster_at_work() -> AnsweringCluster:
        return cluster

    topics = SimpleNamespace(
        views=lambda _: list(image.topics.values()), view=lambda _, name: image.topics[name]
    )
    service = SimpleNamespace(
        topics=topics,
        administration=SimpleNamespace(cluster_at_work=cluster_at_work, stepped_down=None),
    )
    return RequestContext(
        cast(Any, SimpleNamespace(service=service)),
        _METADATA_VERSION,
        0,
        cast(Any, None),
        cast(Any, None),
    )


def _written(message: Any) -> int:
    """The answer as large ones are written; returns its bytes."""
    operation = metadata_door.OPERATION
    schema = load_schema(operation.api_key, _METADATA_VERSION, operation.max_version)
    chunks: Chunks = []
    size = 0
    for _ in schema.write_response_stepwise(0, message, chunks):
        if len(chunks) > 10_000:
            size += sum(map(len, join_small(chunks)))
            chunks.clear()
    return size + sum(map(len, chunks))


def _place(size: Size, image: MetadataImage, figures: MetadataFigures) -> None:
    """One more topic, as whoever makes it places it."""
    config = BrokerConfig(node_id=1, max_partitions_per_broker=1_000_000)
    new = NewTopic(name="one-more", partitions=size.per_topic, replication_factor=size.replicas)
    with watched() as placing:
        placing_now = Placing(image, config)
        replicas = placing_now.of_topic(new)
    figures.place_s = placing.cpu_s
    with watched() as checking:
        placing_now.check_room(replicas)
    figures.check_room_s = checking.cpu_s
    assert len(replicas) == size.per_topic
    assert broker_epoch(DEAD) == image.brokers[DEAD].epoch
